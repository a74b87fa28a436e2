package stocktest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	helmTimeout = 60 * time.Second
	chart       = "testdata/chart"
)

// TestHelm installs, upgrades, tests, rolls back and uninstalls a chart with hooks, lookups and a custom resource.
func TestHelm(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	h := newHelm(t, c, "shops", "shop")
	kube := kubernetes.NewForConfigOrDie(c.config)
	settings := func() map[string]string {
		t.Helper()
		m, err := kube.CoreV1().ConfigMaps("shops").Get(t.Context(), "shop", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return m.Data
	}

	offers := dynamic.NewForConfigOrDie(c.config).Resource(schema.GroupVersionResource{Group: "shop.example.com", Version: "v1", Resource: "offers"}).Namespace("shops")
	offered := func(name, want string) {
		t.Helper()
		o, err := offers.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(o.Object["spec"]); string(got) != want {
			t.Errorf("offer %s is %s, want %s", name, got, want)
		}
	}

	h.install(chart, map[string]any{"title": "First"})
	offered("shop", `{"currency":"EUR","goods":[{"count":1,"name":"apples"}],"price":10}`)
	offered("shop-opening", `{"currency":"EUR","price":1}`)
	if got := settings(); got["title"] != "First" || got["seed"] != "seed of revision 1" || got["version"] != "v1.36.3" {
		t.Errorf("installed with %v", got)
	}
	deployment, err := kube.AppsV1().Deployments("shops").Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil || deployment.Status.ReadyReplicas != 1 || deployment.Annotations["meta.helm.sh/release-name"] != "shop" {
		t.Errorf("Deployment %+v: %v", deployment, err)
	}
	h.test()

	h.upgrade(chart, map[string]any{"title": "Second", "replicas": 2, "price": 20})
	offered("shop", `{"before":10,"currency":"EUR","goods":[{"count":1,"name":"apples"},{"count":2,"name":"pears"}],"price":20}`)
	if got := settings(); got["title"] != "Second" || got["seed"] != "seed of revision 1" {
		t.Errorf("upgraded to %v", got)
	}
	h.test()

	h.refuses(map[string]any{"price": 0}, `spec.price: Invalid value: 0: spec.price in body should be greater than or equal to 1`)

	h.rollback(1)
	offered("shop", `{"currency":"EUR","goods":[{"count":1,"name":"apples"}],"price":10}`)
	if got := settings(); got["title"] != "First" {
		t.Errorf("rolled back to %v", got)
	}
	h.history("superseded", "superseded", "failed", "superseded", "deployed")

	h.uninstall()
	if _, err := kube.AppsV1().Deployments("shops").Get(t.Context(), "shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Deployment after uninstall: %v", err)
	}
	left, err := offers.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].GetName() != "shop-opening" { // of a hook: Helm does not delete it
		t.Errorf("the definition stays, without the release's objects: %v, %v", left, err)
	}
	if _, err := kube.CoreV1().ConfigMaps("shops").Get(t.Context(), "shop-left", metav1.GetOptions{}); err != nil {
		t.Errorf("the object of the post-delete hook: %v", err)
	}
}

// helm runs commands for one release in one namespace.
type helm struct {
	*testing.T
	conf            *action.Configuration
	namespace, name string
}

func newHelm(t *testing.T, c cluster, namespace, name string) helm {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = ptr.To(c.kubeconfig), ptr.To(namespace)
	conf := new(action.Configuration)
	if err := conf.Init(flags, namespace, "secret", t.Logf); err != nil {
		t.Fatal(err)
	}
	return helm{t, conf, namespace, name}
}

func (h helm) install(path string, values map[string]any) {
	h.Helper()
	ch, err := loader.Load(path)
	if err != nil {
		h.Fatal(err)
	}
	i := action.NewInstall(h.conf)
	i.ReleaseName, i.Namespace, i.CreateNamespace, i.Wait, i.Timeout = h.name, h.namespace, true, true, helmTimeout
	rel, err := i.Run(ch, values)
	if err != nil {
		h.Fatalf("install: %v", err)
	}
	if rel.Info.Status != release.StatusDeployed {
		h.Errorf("install: %s", rel.Info.Status)
	}
}

func (h helm) upgrade(path string, values map[string]any) {
	h.Helper()
	if err := h.tryUpgrade(path, values); err != nil {
		h.Fatalf("upgrade: %v", err)
	}
}

// refuses checks that an upgrade fails and is rolled back.
func (h helm) refuses(values map[string]any, want string) {
	h.Helper()
	if err := h.tryUpgrade(chart, values); err == nil || !strings.Contains(err.Error(), want) {
		h.Errorf("upgrade with %v: %v, want %s", values, err, want)
	}
}

func (h helm) tryUpgrade(path string, values map[string]any) error {
	h.Helper()
	ch, err := loader.Load(path)
	if err != nil {
		h.Fatal(err)
	}
	u := action.NewUpgrade(h.conf)
	u.Namespace, u.Wait, u.Atomic, u.Timeout = h.namespace, true, true, helmTimeout
	_, err = u.Run(h.name, ch, values)
	return err
}

func (h helm) test() {
	h.Helper()
	rt := action.NewReleaseTesting(h.conf)
	rt.Namespace, rt.Timeout = h.namespace, helmTimeout
	if _, err := rt.Run(h.name); err != nil {
		h.Fatalf("test: %v", err)
	}
}

func (h helm) rollback(revision int) {
	h.Helper()
	r := action.NewRollback(h.conf)
	r.Version, r.Wait, r.Timeout = revision, true, helmTimeout
	if err := r.Run(h.name); err != nil {
		h.Fatalf("rollback: %v", err)
	}
}

func (h helm) history(want ...string) {
	h.Helper()
	list, err := action.NewHistory(h.conf).Run(h.name)
	if err != nil {
		h.Fatalf("history: %v", err)
	}
	var got []string
	for _, r := range list {
		got = append(got, r.Info.Status.String())
	}
	if !slices.Equal(got, want) {
		h.Errorf("history is %v, want %v", got, want)
	}
}

func (h helm) uninstall() {
	h.Helper()
	u := action.NewUninstall(h.conf)
	u.Wait, u.Timeout = true, helmTimeout
	if _, err := u.Run(h.name); err != nil {
		h.Fatalf("uninstall: %v", err)
	}
}
