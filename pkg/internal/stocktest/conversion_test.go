package stocktest

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Board is the storage version: its lines are a list.
type Board struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   BoardSpec   `json:"spec"`
	Status BoardStatus `json:"status,omitempty"`
}

// BoardSpec is the desired state of a Board.
type BoardSpec struct {
	Lines []string `json:"lines,omitempty"`
}

// BoardStatus is the observed state: the number of lines.
type BoardStatus struct {
	Shown int32 `json:"shown,omitempty"`
}

// Hub marks the version to and from which the others are converted.
func (*Board) Hub() {}

// DeepCopyObject implements runtime.Object.
func (b *Board) DeepCopyObject() runtime.Object {
	out := *b
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Lines = append([]string(nil), b.Spec.Lines...)
	return &out
}

// BoardList is a list of Boards.
type BoardList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Board `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *BoardList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]Board, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Board)
	}
	return &out
}

// OldBoard is a Board of version v1: its lines are one string.
type OldBoard struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   OldBoardSpec `json:"spec"`
	Status BoardStatus  `json:"status,omitempty"`
}

// OldBoardSpec is the desired state of an OldBoard.
type OldBoardSpec struct {
	Text string `json:"text,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (b *OldBoard) DeepCopyObject() runtime.Object {
	out := *b
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// ConvertTo implements conversion.Convertible.
func (b *OldBoard) ConvertTo(hub conversion.Hub) error {
	if strings.Contains(b.Spec.Text, "unconvertible") {
		return errors.New("this has no lines")
	}
	to := hub.(*Board)
	to.ObjectMeta, to.Status = b.ObjectMeta, b.Status
	to.Spec.Lines = strings.Split(b.Spec.Text, "/")
	return nil
}

// ConvertFrom implements conversion.Convertible.
func (b *OldBoard) ConvertFrom(hub conversion.Hub) error {
	from := hub.(*Board)
	b.ObjectMeta, b.Status = from.ObjectMeta, from.Status
	b.Spec.Text = strings.Join(from.Spec.Lines, "/")
	return nil
}

func boardScheme(t *testing.T) *runtime.Scheme {
	s := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for version, obj := range map[string]runtime.Object{"v1": &OldBoard{}, "v2": &Board{}} {
		gv := schema.GroupVersion{Group: "web.example.com", Version: version}
		s.AddKnownTypeWithName(gv.WithKind("Board"), obj)
		metav1.AddToGroupVersion(s, gv)
	}
	s.AddKnownTypes(schema.GroupVersion{Group: "web.example.com", Version: "v2"}, &BoardList{})
	return s
}

// boards reconciles Boards: it writes the number of lines to the status.
type boards struct{ client.Client }

func (b boards) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var board Board
	if err := b.Get(ctx, req.NamespacedName, &board); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if n := int32(len(board.Spec.Lines)); board.Status.Shown != n {
		was := board.DeepCopyObject().(*Board)
		board.Status.Shown = n
		return ctrl.Result{}, b.Status().Patch(ctx, &board, client.MergeFrom(was))
	}
	return ctrl.Result{}, nil
}

// startBoards defines the Boards after it has started a manager with their controller, a typed informer, an untyped
// informer of the old version, and the conversion webhook.
func startBoards(t *testing.T, c cluster, s *runtime.Scheme, direct client.Client) ctrl.Manager {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	certificate(t, dir)
	m, err := ctrl.NewManager(c.config, ctrl.Options{
		Scheme: s, Metrics: metricsserver.Options{BindAddress: "0"},
		Client:        client.Options{Cache: &client.CacheOptions{Unstructured: true}},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: dir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := os.ReadFile(filepath.Join(dir, "tls.crt"))
	if err != nil {
		t.Fatal(err)
	}
	crd := read(t, "testdata/boards.yaml")
	where := map[string]any{"url": fmt.Sprintf("https://127.0.0.1:%d/convert", port), "caBundle": base64.StdEncoding.EncodeToString(trusted)}
	if err := unstructured.SetNestedMap(crd.Object, where, "spec", "conversion", "webhook", "clientConfig"); err != nil {
		t.Fatal(err)
	}
	if err := direct.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	eventually(t, "Boards are served", func(ctx context.Context) error { return direct.List(ctx, &BoardList{}) })
	if err := ctrl.NewWebhookManagedBy(m, &Board{}).Complete(); err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewControllerManagedBy(m).For(&Board{}).Complete(boards{m.GetClient()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("manager of the boards: %v", err)
		}
	})
	eventually(t, "the webhook is served", func(context.Context) error { return m.GetWebhookServer().StartedChecker()(nil) })
	return m
}

// oldBoard returns an unstructured Board of the old version.
func oldBoard(name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("web.example.com/v1")
	obj.SetKind("Board")
	obj.SetNamespace("default")
	obj.SetName(name)
	return obj
}

// TestConversion converts a custom resource with controller-runtime's webhook: objects written in one version are read,
// watched, patched and applied in the other.
func TestConversion(t *testing.T) {
	c, s := newCluster(t), boardScheme(t)
	direct, err := client.New(c.config, client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	m := startBoards(t, c, s, direct)

	old := &OldBoard{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, Spec: OldBoardSpec{Text: "one/two"}}
	if err := direct.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	board := &Board{}
	shows := func(lines ...string) {
		t.Helper()
		eventually(t, fmt.Sprint("the board shows ", lines), func(ctx context.Context) error {
			if err := direct.Get(ctx, client.ObjectKeyFromObject(old), board); err != nil {
				return err
			}
			if !slices.Equal(board.Spec.Lines, lines) || int(board.Status.Shown) != len(lines) {
				return fmt.Errorf("%v, of which %d are shown", board.Spec.Lines, board.Status.Shown)
			}
			return nil
		})
	}
	shows("one", "two")
	untyped := oldBoard("a")
	cached := func(text string) {
		t.Helper()
		eventually(t, "the untyped cache has "+text, func(ctx context.Context) error {
			if err := m.GetClient().Get(ctx, client.ObjectKeyFromObject(old), untyped); err != nil {
				return err
			}
			if got, _, _ := unstructured.NestedString(untyped.Object, "spec", "text"); got != text {
				return fmt.Errorf("it has %q", got)
			}
			return nil
		})
	}
	cached("one/two")
	if err := direct.Patch(t.Context(), old, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"text":"one"}}`))); err != nil {
		t.Fatal(err)
	}
	shows("one")
	cached("one")
	board.Spec.Lines = []string{"three", "four", "five"}
	if err := direct.Update(t.Context(), board); err != nil {
		t.Fatal(err)
	}
	shows("three", "four", "five")
	cached("three/four/five")
	applies(t, direct)

	bad := &OldBoard{ObjectMeta: metav1.ObjectMeta{Name: "bad", Namespace: "default"}, Spec: OldBoardSpec{Text: "unconvertible"}}
	err = direct.Create(t.Context(), bad)
	if want := "conversion webhook for web.example.com/v1, Kind=Board failed: this has no lines"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("create: %v, want %s", err, want)
	}
	if err := direct.DeleteAllOf(t.Context(), board, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the caches drop it", func(ctx context.Context) error {
		if err := m.GetClient().Get(ctx, client.ObjectKeyFromObject(old), untyped); !apierrors.IsNotFound(err) {
			return fmt.Errorf("got it: %w", err)
		}
		return nil
	})
}

// applies applies the fields of one object by two managers, each in another version.
func applies(t *testing.T, direct client.Client) {
	t.Helper()
	apply := func(obj *unstructured.Unstructured, owner string, opts ...client.ApplyOption) error {
		opts = append(opts, client.FieldOwner(owner))
		return direct.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(obj), opts...)
	}
	first := oldBoard("applied")
	unstructured.SetNestedField(first.Object, "x/y", "spec", "text")
	if err := apply(first, "first"); err != nil {
		t.Fatal(err)
	}
	second := oldBoard("applied")
	unstructured.SetNestedField(second.Object, "z", "spec", "text")
	if err := apply(second.DeepCopy(), "second"); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "first": .spec.text`) {
		t.Errorf("apply against another: %v", err)
	}
	labelled := oldBoard("applied")
	labelled.SetAPIVersion("web.example.com/v2")
	labelled.SetLabels(map[string]string{"by": "third"})
	if err := apply(labelled, "third"); err != nil {
		t.Error(err)
	}
	if err := apply(second, "second", client.ForceOwnership); err != nil {
		t.Error(err)
	}
	var got Board
	if err := direct.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "applied"}, &got); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Spec.Lines, []string{"z"}) || got.Labels["by"] != "third" {
		t.Errorf("applied: %+v", got)
	}
}
