package verbs_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// counter is an authorizer that counts its calls and allows the requests that the function allowed accepts.
type counter struct {
	calls   int
	allowed func(a *stage.Attributes) bool
}

func (c *counter) Authorize(_ context.Context, a *stage.Attributes) (stage.Decision, string, error) {
	c.calls++
	if c.allowed(a) {
		return stage.Allow, "", nil
	}
	return stage.Deny, "", nil
}

// emptyBackend is a backend without objects.
type emptyBackend struct{}

func (emptyBackend) Get(context.Context, *verbs.Request, *metav1.GetOptions) (*cache.Item, error) {
	return cache.NewItem(objects.Key{Name: "x"}, 0, newConfigMap("x")), nil
}

func (emptyBackend) List(context.Context, *verbs.Request, *metav1.ListOptions) (verbs.Listing, error) {
	return verbs.Listing{}, nil
}

func serveCounted(t *testing.T, c *counter, backends map[schema.GroupResource]verbs.Backend) *server {
	t.Helper()
	return serveWith(t, memory.New(), func(cfg *verbs.Config) {
		cfg.Stages = func(stage.Reader) stage.Stages { return stage.Stages{Authorizers: []stage.Authorizer{c}} }
		cfg.Backends = backends
	})
}

// calls lists a request of each verb.
func calls(s *server, req func(verb, name string) *verbs.Request, body verbs.Body) map[string]func(context.Context) error {
	api := s.engine
	return map[string]func(context.Context) error{
		"get": func(ctx context.Context) error {
			_, err := api.Get(ctx, req("get", "x"), &metav1.GetOptions{})
			return err
		},
		"list": func(ctx context.Context) error {
			_, err := api.List(ctx, req("list", ""), &metav1.ListOptions{})
			return err
		},
		"watch": func(ctx context.Context) error {
			_, err := api.Watch(ctx, req("watch", ""), &metav1.ListOptions{})
			return err
		},
		"create": func(ctx context.Context) error {
			_, err := api.Create(ctx, req("create", ""), body, &metav1.CreateOptions{})
			return err
		},
		"update": func(ctx context.Context) error {
			_, err := api.Update(ctx, req("update", "x"), body, &metav1.UpdateOptions{})
			return err
		},
		"patch": func(ctx context.Context) error {
			_, err := api.Patch(ctx, req("patch", "x"), verbs.Patch{Type: types.MergePatchType, Data: []byte(`{"data":{"a":"b"}}`)}, &metav1.PatchOptions{})
			return err
		},
		"delete": func(ctx context.Context) error {
			_, err := api.Delete(ctx, req("delete", "x"), &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		},
		"deletecollection": func(ctx context.Context) error {
			_, err := api.DeleteCollection(ctx, req("deletecollection", ""), &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}, &metav1.ListOptions{})
			return err
		},
	}
}

func configMapRequest(s *server) func(verb, name string) *verbs.Request {
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	served := s.engine.Lookup(gvr)
	return func(verb, name string) *verbs.Request {
		return &verbs.Request{Version: served.Version, Attributes: stage.Attributes{
			Verb: verb, Resource: served.Resource, GVR: gvr, Namespace: "default", Name: name, Warn: func(string) {},
		}}
	}
}

// TestAuthorizedOnce: each verb authorizes a request, and none authorizes it again after Authorize.
func TestAuthorizedOnce(t *testing.T) {
	c := &counter{allowed: func(*stage.Attributes) bool { return true }}
	s := serveCounted(t, c, nil)
	create(t, s, configMaps, newConfigMap("x"))
	req := configMapRequest(s)
	authorized := func(verb, name string) *verbs.Request {
		r := req(verb, name)
		if err := s.engine.Authorize(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	newBody := func() (runtime.Object, error) { return newConfigMap("y"), nil }
	for _, makeRequest := range []func(verb, name string) *verbs.Request{req, authorized} {
		for verb, call := range calls(s, makeRequest, newBody) {
			c.calls = 0
			if err := call(t.Context()); err != nil && verb != "update" && verb != "create" { // the name is another, or in use
				t.Errorf("%s: %v", verb, err)
			}
			if c.calls != 1 {
				t.Errorf("%s: the authorizer is called %d times", verb, c.calls)
			}
		}
	}
}

// TestForbiddenRequestBodyIsNotRead: without permission, no verb reads the request's body.
func TestForbiddenRequestBodyIsNotRead(t *testing.T) {
	s := serveCounted(t, &counter{allowed: func(*stage.Attributes) bool { return false }}, nil)
	body := func() (runtime.Object, error) {
		t.Error("the body is read")
		return nil, errors.New("the body is read")
	}
	for verb, call := range calls(s, configMapRequest(s), body) {
		t.Run(verb, func(t *testing.T) { wantError(t, call(t.Context()), 403, "configmaps") })
	}
}

// TestNamespaceIsChecked: the engine checks the namespace of objects in requests, including the objects of
// subresources.
func TestNamespaceIsChecked(t *testing.T) {
	s := serve(t, memory.New())
	create(t, s, pods, newPod("a"))
	const words = "the namespace of the provided object does not match the namespace sent on the request"
	elsewhere := metav1.ObjectMeta{Name: "a", Namespace: "elsewhere"}
	_, err := s.Create(t.Context(), configMaps, &corev1.ConfigMap{ObjectMeta: elsewhere}, metav1.CreateOptions{})
	wantError(t, err, 400, words)
	_, err = s.Update(t.Context(), in(pods, "a"), &corev1.Pod{ObjectMeta: elsewhere}, metav1.UpdateOptions{})
	wantError(t, err, 400, words)
	_, err = s.Create(t.Context(), in(pods, "a").Sub("binding"), &corev1.Binding{ObjectMeta: elsewhere}, metav1.CreateOptions{})
	wantError(t, err, 400, words)
}

// TestBackend: the engine authorizes requests to a backend, and refuses the verbs that the backend does not have.
func TestBackend(t *testing.T) {
	c := &counter{allowed: func(a *stage.Attributes) bool { return a.Name != "secret" }}
	s := serveCounted(t, c, map[schema.GroupResource]verbs.Backend{{Resource: "configmaps"}: emptyBackend{}})
	req := configMapRequest(s)
	for verb, call := range calls(s, req, func() (runtime.Object, error) { return newConfigMap("y"), nil }) {
		c.calls = 0
		switch err := call(t.Context()); verb {
		case "get", "list":
			if err != nil {
				t.Errorf("%s: %v", verb, err)
			}
		default:
			wantError(t, err, 405, verb+" is not supported")
		}
		if c.calls != 1 {
			t.Errorf("%s: the authorizer is called %d times", verb, c.calls)
		}
	}
	_, err := s.engine.Get(t.Context(), req("get", "secret"), &metav1.GetOptions{})
	wantError(t, err, 403, "configmaps")
}
