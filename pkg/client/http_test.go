package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

// served returns a client of a server with this handler.
func served(t *testing.T, handler http.HandlerFunc) client.Client {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c, err := client.HTTP(&rest.Config{Host: s.URL}, "a-program v1")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func reply(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body) // the client reports an incomplete response
}

func TestHTTPRequests(t *testing.T) {
	var got string
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Method + " " + r.URL.RequestURI()
		if agent := r.UserAgent(); agent != "a-program v1" {
			t.Errorf("user agent %q", agent)
		}
		kind := "Pod"
		if strings.Contains(r.URL.Path, "minikctl.dev") {
			kind = "Decision"
			raw, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			var body runtime.Unknown
			if err := body.Unmarshal(bytes.TrimPrefix(raw, []byte("k8s\x00"))); err != nil || body.APIVersion != "minikctl.dev/v1" || body.Kind != kind ||
				r.Header.Get("Content-Type") != "application/vnd.kubernetes.protobuf" || r.Header.Get("Accept") != "application/json" {
				t.Errorf("sent %s %q, %v", r.Header.Get("Content-Type"), raw, err)
			}
			reply(w, 201, `{"apiVersion":"minikctl.dev/v1","kind":"Decision","metadata":{"name":"d"},"pod":"p"}`)
			return
		}
		if r.Method != http.MethodGet {
			if report, err := trace.Decode(r.Header.Get(trace.Header)); err != nil || len(report.Causes) != 1 || report.Causes[0] != 42 {
				t.Errorf("%s: causes %+v, %v", got, report, err)
			}
		}
		if r.URL.Query().Get("limit") != "" {
			kind = "PodList"
		}
		reply(w, 200, `{"apiVersion":"v1","kind":"`+kind+`","metadata":{"resourceVersion":"5"}}`)
	})
	ctx := trace.With(t.Context(), 42)
	p := client.Target{Resource: client.Pods, Namespace: "ns", Name: "p"}
	yes := true
	seconds := int64(5)
	for _, call := range []struct {
		want string
		do   func() error
	}{
		{"GET /api/v1/namespaces/ns/pods/p", func() error { _, err := c.Get(ctx, p, metav1.GetOptions{}); return err }},
		{"GET /api/v1/namespaces/ns/pods?fieldSelector=a%3Db&limit=5", func() error {
			_, err := c.List(ctx, p, metav1.ListOptions{Limit: 5, FieldSelector: "a=b"})
			return err
		}},
		{"POST /api/v1/namespaces/ns/pods?dryRun=All&fieldManager=m", func() error {
			_, err := c.Create(ctx, p, &corev1.Pod{}, metav1.CreateOptions{DryRun: []string{"All"}, FieldManager: "m"})
			return err
		}},
		{"POST /api/v1/namespaces/ns/pods/p/binding", func() error {
			_, err := c.Create(ctx, p.Sub("binding"), &corev1.Binding{}, metav1.CreateOptions{})
			return err
		}},
		{"PUT /api/v1/namespaces/ns/pods/p/status", func() error {
			_, err := c.Update(ctx, p.Sub("status"), &corev1.Pod{}, metav1.UpdateOptions{})
			return err
		}},
		{"PATCH /api/v1/namespaces/ns/pods/p?force=true", func() error {
			_, err := c.Patch(ctx, p, client.Patch{Type: types.ApplyPatchType, Data: []byte(`{}`)}, metav1.PatchOptions{Force: &yes})
			return err
		}},
		{"DELETE /api/v1/namespaces/ns/pods/p", func() error {
			_, err := c.Delete(ctx, p, metav1.DeleteOptions{GracePeriodSeconds: &seconds})
			return err
		}},
		{"POST /apis/minikctl.dev/v1/namespaces/ns/decisions", func() error {
			out, err := c.Create(ctx, client.Target{Resource: minikctl.Decisions, Namespace: "ns"}, &minikctl.Decision{Pod: "p"}, metav1.CreateOptions{})
			if d, ok := out.(*minikctl.Decision); err == nil && (!ok || d.Pod != "p") {
				return fmt.Errorf("the response is %T", out)
			}
			return err
		}},
	} {
		if err := call.do(); err != nil {
			t.Errorf("%s: %v", call.want, err)
		}
		expect(t, "request", got, call.want)
	}
}

func TestHTTPCustomKinds(t *testing.T) {
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		if accept := r.Header.Get("Accept"); accept != "application/json" {
			t.Errorf("accepts %q", accept)
		}
		reply(w, 200, `{"apiVersion":"example.org/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"5"},"spec":{"x":1}}`)
	})
	things := client.Target{Resource: schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "things"}, Name: "a"}
	obj, err := c.Get(t.Context(), things, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || u.GetName() != "a" || u.GetKind() != "Thing" {
		t.Errorf("got %T %+v", obj, obj)
	}
}

// TestHTTPOlderServer checks that decisions and batches of bindings reach a server that reads them as JSON only, and that protobuf is tried once.
func TestHTTPOlderServer(t *testing.T) {
	for _, refusal := range []struct {
		code   int
		reason metav1.StatusReason
	}{{http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType}, {http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable}} {
		var sent []string
		c := served(t, func(w http.ResponseWriter, r *http.Request) {
			kind := r.Header.Get("Content-Type")
			if kind == "application/vnd.kubernetes.protobuf" && strings.Contains(r.URL.Path, "minikctl.dev") {
				sent = append(sent, "refused")
				reply(w, refusal.code, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, refusal.reason, refusal.code))
				return
			}
			var body struct{ Kind string }
			if kind == "application/json" {
				if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
					t.Error(err)
				}
			}
			sent = append(sent, kind+" "+body.Kind)
			reply(w, 201, `{"apiVersion":"v1","kind":"Status","status":"Success"}`)
		})
		decisions := &minikctl.DecisionList{Items: []minikctl.Decision{{Pod: "p"}}}
		for _, step := range []struct {
			to  client.Target
			obj runtime.Object
		}{
			{client.Target{Resource: minikctl.Decisions, Namespace: "default"}, decisions},
			{client.Target{Resource: minikctl.BindingBatches}, &minikctl.BindingBatch{}},
			{client.Target{Resource: minikctl.Decisions, Namespace: "default"}, decisions},
			{client.Target{Resource: client.Pods, Namespace: "default"}, &corev1.Pod{}},
		} {
			if _, err := c.Create(t.Context(), step.to, step.obj, metav1.CreateOptions{}); err != nil {
				t.Errorf("%d: %v", refusal.code, err)
			}
		}
		want := []string{"refused", "application/json DecisionList", "application/json BindingBatch", "application/json DecisionList", "application/vnd.kubernetes.protobuf "}
		if !slices.Equal(sent, want) {
			t.Errorf("%d: sent %q, want %q", refusal.code, sent, want)
		}
	}
}

func TestHTTPErrors(t *testing.T) {
	for _, c := range []struct {
		name, body string
		code       int
		is         func(error) bool
		message    string
	}{
		{"a status", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"pods \"p\" not found","reason":"NotFound","code":404}`, 404, apierrors.IsNotFound, `pods "p" not found`},
		{"no status", `<html>`, 404, apierrors.IsNotFound, "the server could not find the requested resource (get pods p)"},
		{"a proxy", `upstream is away`, 502, func(err error) bool { return apierrors.ReasonForError(err) != metav1.StatusReasonUnknown }, ""},
		{"nonsense", `{"kind":"Pod","apiVersion":"v1","spec":3}`, 200, apierrors.IsInternalError, ""},
		{"another kind", `{"kind":"PodList","apiVersion":"v1"}`, 200, apierrors.IsInternalError, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := served(t, func(w http.ResponseWriter, _ *http.Request) { reply(w, c.code, c.body) })
			_, err := cl.Get(t.Context(), client.Target{Resource: client.Pods, Namespace: "ns", Name: "p"}, metav1.GetOptions{})
			if !c.is(err) {
				t.Errorf("got %v (%s)", err, apierrors.ReasonForError(err))
			}
			if _, ok := errors.AsType[*apierrors.StatusError](err); !ok {
				t.Errorf("the error is a %T", err)
			}
			if c.message != "" {
				expect(t, "message", err.Error(), c.message)
			}
		})
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	cl, err := client.HTTP(&rest.Config{Host: gone.URL}, "a-program")
	if err != nil {
		t.Fatal(err)
	}
	_, err = cl.Get(t.Context(), client.Target{Resource: client.Pods, Namespace: "ns", Name: "p"}, metav1.GetOptions{})
	if _, ok := errors.AsType[*apierrors.StatusError](err); ok || err == nil {
		t.Errorf("without a server: %v", err)
	}
}

func TestHTTPRetryAfter(t *testing.T) {
	attempts := 0
	c := served(t, func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil || len(raw) == 0 {
			t.Errorf("attempt %d without its body: %v", attempts, err)
		}
		if attempts++; attempts < 3 {
			w.Header().Set("Retry-After", "0")
			reply(w, http.StatusTooManyRequests, "slowly")
			return
		}
		reply(w, 201, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`)
	})
	_, err := c.Create(t.Context(), client.Target{Resource: client.ConfigMaps, Namespace: "ns"}, &corev1.ConfigMap{}, metav1.CreateOptions{})
	if err != nil {
		t.Error(err)
	}
	expect(t, "attempts", attempts, 3)
}

func TestHTTPWarnings(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("Warning", `299 - "one"`)
		w.Header().Add("Warning", `299 - "two"`)
		reply(w, 200, `{"apiVersion":"v1","kind":"Pod","metadata":{}}`)
	}))
	t.Cleanup(s.Close)
	for _, kind := range []string{"with a context", "without one", "none"} {
		var got warnings
		cfg := &rest.Config{Host: s.URL}
		want := "[one two]"
		switch kind {
		case "with a context":
			cfg.WarningHandlerWithContext = &got
		case "without one":
			cfg.WarningHandler = &got
		default:
			want = "[]"
		}
		c, err := client.HTTP(cfg, "a-program")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(t.Context(), client.Target{Resource: client.Pods, Namespace: "ns", Name: "p"}, metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		expect(t, kind, got, want)
	}
}

type warnings []string

func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	*w = append(*w, text)
}

// TestHTTPWatch: the error at the end of a watch determines whether the client resumes it or lists again.
func TestHTTPWatch(t *testing.T) {
	added := `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","resourceVersion":"6"}}}` + "\n"
	expired := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old","reason":"Expired","code":410}}` + "\n"
	for _, c := range []struct {
		name, body, events string
		is                 func(error) bool // nil: no error
	}{
		{"the server ends it", added, "p ", nil},
		{"cut off in an event", added + added[:30], "p ", nil},
		{"expired", added + expired, "p ", apierrors.IsResourceExpired},
		{"nonsense", added + `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":3}}`, "p ", func(err error) bool { return err != nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl := served(t, func(w http.ResponseWriter, r *http.Request) {
				if got, want := r.URL.RequestURI(), "/api/v1/pods?resourceVersion=5&watch=true"; got != want {
					t.Errorf("requested %s, want %s", got, want)
				}
				reply(w, 200, c.body)
			})
			events := ""
			var failed error
			for ev, err := range cl.Watch(t.Context(), client.Target{Resource: client.Pods}, metav1.ListOptions{ResourceVersion: "5"}) {
				if err != nil {
					failed = err
					continue
				}
				events += ev.Object.GetName() + " "
			}
			expect(t, "events", events, c.events)
			if c.is == nil && failed != nil || c.is != nil && !c.is(failed) {
				t.Errorf("ended with %v", failed)
			}
		})
	}
}

func TestHTTPTimeout(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(release) })
	c, err := client.HTTP(&rest.Config{Host: s.URL, Timeout: 20 * time.Millisecond}, "a-program")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Get(t.Context(), client.Target{Resource: client.Pods, Namespace: "ns", Name: "p"}, metav1.GetOptions{})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestHTTPConnections checks that many requests at once share one connection, whose streams HTTP/2 servers limit.
func TestHTTPConnections(t *testing.T) {
	var connections atomic.Int32
	arrived, release := make(chan struct{}, 1000), make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/ns/pods/first" {
			arrived <- struct{}{}
			<-release
		}
		reply(w, http.StatusOK, `{"kind": "Pod", "apiVersion": "v1"}`)
	}))
	s.EnableHTTP2 = true
	s.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 100}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c, err := client.HTTP(&rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, "a-program")
	if err != nil {
		t.Fatal(err)
	}
	get := func(ctx context.Context, name string) error {
		_, err := c.Get(ctx, client.Target{Resource: client.Pods, Namespace: "ns", Name: name}, metav1.GetOptions{})
		return err
	}
	if err := get(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	var all errgroup.Group
	for range 300 {
		all.Go(func() error { return get(t.Context(), "p") })
	}
	for range 64 {
		<-arrived
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := get(ctx, "p"); !errors.Is(err, context.DeadlineExceeded) || len(arrived) > 0 {
		t.Errorf("another request: %v, and %d were sent", err, len(arrived))
	}
	close(release)
	if err := all.Wait(); err != nil {
		t.Error(err)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// FuzzPath: a parsed path builds the same path again.
func FuzzPath(f *testing.F) {
	for _, path := range []string{
		"/api/v1/pods", "/api/v1/namespaces", "/api/v1/namespaces/a", "/api/v1/namespaces/a/finalize", "/api/v1/namespaces/a/status",
		"/api/v1/namespaces/a/pods", "/api/v1/namespaces/a/pods/b", "/api/v1/namespaces/a/pods/b/status", "/apis/apps/v1/deployments",
		"/apis/apps/v1/namespaces/a/deployments/b/scale", "/api/v1/nodes/n/status", "/apis", "/", "/version",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		target, ok := client.ParsePath(path)
		if !ok || strings.Contains(strings.Trim(path, "/"), "//") {
			return
		}
		if got, want := client.Path(target), "/"+strings.Trim(path, "/"); got != want {
			raw, _ := json.Marshal(target) // for the message
			t.Errorf("%q is read as %s, which is %q", path, raw, got)
		}
	})
}
