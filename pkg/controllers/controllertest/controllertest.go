// Package controllertest runs all controllers against an API server in a test, without nodes: pods become ready when the
// test makes them so.
package controllertest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
)

// testTimeout bounds how long a test waits for the controllers.
const testTimeout = time.Minute

// RootCA is the CA certificate that the controllers publish.
const RootCA = "a certificate"

// Cluster is an API server with the controllers. Its Client may do everything.
type Cluster struct {
	testing.TB
	client.Client
	Caches *client.Caches // of the controllers, and one of pods
	Env    *apiservertest.Env
}

// Start starts a cluster that ends with the test, and waits for its default ServiceAccount. The controllers run in the server's process, on clk.
func Start(t testing.TB, clk clock.Clock) *Cluster {
	t.Helper()
	return StartWith(t, clk, func(*controllers.Config) {})
}

// StartWith is Start with other settings of the controllers.
func StartWith(t testing.TB, clk clock.Clock, set func(*controllers.Config)) *Cluster {
	t.Helper()
	env := apiservertest.New(t)
	as := func(name string, groups ...string) client.Client {
		info := &user.DefaultInfo{Name: "system:" + name, Groups: append(groups, user.AllAuthenticated)}
		return env.Server.Client(info, name[strings.LastIndex(name, ":")+1:])
	}
	return run(t, env, clk, set, as, func(name string) (*rest.Config, error) {
		info := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:" + name, Groups: []string{user.AllAuthenticated}}
		return &rest.Config{Host: "http://localhost", Transport: env.Server.Documents(info), QPS: -1}, nil
	})
}

// StartRemote is Start with controllers that reach the server over HTTP, on the machine's clock.
func StartRemote(t testing.TB) *Cluster {
	t.Helper()
	return StartRemoteOn(t, clock.Real())
}

// StartRemoteOn is StartRemote on another clock.
func StartRemoteOn(t testing.TB, clk clock.Clock) *Cluster {
	t.Helper()
	return StartRemoteWith(t, clk, func(*controllers.Config) {})
}

// StartRemoteWith is StartRemoteOn with other settings of the controllers.
func StartRemoteWith(t testing.TB, clk clock.Clock, set func(*controllers.Config)) *Cluster {
	t.Helper()
	env := apiservertest.New(t)
	as := func(name string, _ ...string) client.Client {
		c, err := client.HTTP(env.AdminConfig, name)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	return run(t, env, clk, set, as, func(string) (*rest.Config, error) { return env.AdminConfig, nil })
}

// Both runs a test with the controllers in the server's process, and once more with the controllers in another.
func Both(t *testing.T, test func(c *Cluster)) {
	BothWith(t, func(*controllers.Config) {}, test)
}

// BothWith is Both with other settings of the controllers.
func BothWith(t *testing.T, set func(*controllers.Config), test func(c *Cluster)) {
	t.Run("in process", func(t *testing.T) { test(StartWith(t, clock.Real(), set)) })
	t.Run("over HTTP", func(t *testing.T) { test(StartRemoteWith(t, clock.Real(), set)) })
}

// run runs the controllers of env. set changes their settings, as returns a client of the user system:NAME, config its configuration.
func run(t testing.TB, env *apiservertest.Env, clk clock.Clock, set func(*controllers.Config), as func(name string, groups ...string) client.Client,
	config func(name string) (*rest.Config, error),
) *Cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	caches := client.NewCaches(as("kube-controller-manager", user.SystemPrivilegedGroup), clk)
	caches.Pods()
	ended := make(chan error, 2)
	cert, key := env.PKI.Authority()
	cfg := controllers.Config{
		Client: func(name string) client.Client {
			return as("serviceaccount:kube-system:"+name, "system:serviceaccounts", "system:serviceaccounts:kube-system")
		},
		Caches: caches, Clock: clk, Source: clock.NewSource(1), RootCA: []byte(RootCA),
		Authority: controller.Authority{Cert: cert, Key: key}, Token: env.Server.SecretToken,
		REST: config,
	}
	set(&cfg)
	go func() { ended <- controllers.Run(ctx, cfg) }()
	go func() { ended <- caches.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("controllers: %v", err)
			}
		}
	})
	c := &Cluster{TB: t, Client: env.Client("test"), Caches: caches, Env: env}
	c.Until("the default ServiceAccount, which pods need", func() bool { return c.Exists(client.ServiceAccounts, "default") })
	return c
}

// Until waits until a condition holds.
func (c *Cluster) Until(what string, holds func() bool) {
	c.Helper()
	deadline := time.Now().Add(testTimeout)
	for !holds() {
		if time.Now().After(deadline) {
			c.Fatalf("after %v still not: %s", testTimeout, what)
		}
		select {
		case <-c.Context().Done():
			c.Fatal(c.Context().Err())
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// Want fails the test if got differs from want.
func Want[T any](c *Cluster, what string, got, want T) {
	c.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		c.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Create creates an object in its own namespace and returns it as stored.
func Create[T objects.Object](c *Cluster, resource schema.GroupVersionResource, obj T) T {
	c.Helper()
	out, err := c.Create(c.Context(), client.Target{Resource: resource, Namespace: obj.GetNamespace()}, obj, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return out.(T)
}

// Get returns the object that At names, false if it does not exist.
func Get[T objects.Object](c *Cluster, resource schema.GroupVersionResource, name string) (T, bool) {
	c.Helper()
	obj, err := c.Get(c.Context(), At(resource, name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		var none T
		return none, false
	}
	if err != nil {
		c.Fatal(err)
	}
	return obj.(T), true
}

// List returns a resource's objects in the namespace default.
func List[T objects.Object](c *Cluster, resource schema.GroupVersionResource) []T {
	c.Helper()
	l, err := c.List(c.Context(), client.Target{Resource: resource, Namespace: "default"}, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	out := make([]T, len(l.Items))
	for i, obj := range l.Items {
		out[i] = obj.(T)
	}
	return out
}

// At returns the target of name: NAMESPACE/NAME, /NAME for a cluster-scoped object, or NAME in the namespace default.
func At(resource schema.GroupVersionResource, name string) client.Target {
	if ns, n, ok := strings.Cut(name, "/"); ok {
		return client.Target{Resource: resource, Namespace: ns, Name: n}
	}
	return client.Target{Resource: resource, Namespace: "default", Name: name}
}

// Exists reports whether the object that At names exists.
func (c *Cluster) Exists(resource schema.GroupVersionResource, name string) bool {
	c.Helper()
	_, err := c.Get(c.Context(), At(resource, name), metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.Fatal(err)
	}
	return err == nil
}

// Remove deletes the object that At names.
func (c *Cluster) Remove(resource schema.GroupVersionResource, name string, policy metav1.DeletionPropagation) {
	c.Helper()
	if _, err := c.Delete(c.Context(), At(resource, name), metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		c.Fatal(err)
	}
}

// Merge applies a strategic merge patch.
func (c *Cluster) Merge(t client.Target, patch string) {
	c.Helper()
	p := client.Patch{Type: types.StrategicMergePatchType, Data: []byte(patch)}
	if _, err := c.Patch(c.Context(), t, p, metav1.PatchOptions{}); err != nil {
		c.Fatalf("patch %s %s: %v", t.Resource.Resource, t.Name, err)
	}
}

// MakePodsReady makes the pending pods of the namespace default Running and Ready, except those being deleted.
func (c *Cluster) MakePodsReady() {
	c.Helper()
	for _, p := range List[*corev1.Pod](c, client.Pods) {
		if p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil {
			continue
		}
		t := At(client.Pods, p.Name).Sub("status")
		status := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`,
			p.UID, p.CreationTimestamp.UTC().Format(time.RFC3339))
		_, err := c.Patch(c.Context(), t, client.Patch{Type: types.StrategicMergePatchType, Data: []byte(status)}, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			c.Fatal(err)
		}
	}
}

// EventsOf returns the reasons and messages of the Events about the object of a name, sorted.
func (c *Cluster) EventsOf(name string) []string {
	c.Helper()
	var out []string
	for _, e := range List[*corev1.Event](c, client.Events) {
		if e.InvolvedObject.Name == name {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	slices.Sort(out)
	return out
}

// ConfigMap returns a ConfigMap of the namespace default with owners.
func ConfigMap(name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", OwnerReferences: owners}}
}

// HasConfigMap reports whether a ConfigMap exists in the namespace default.
func (c *Cluster) HasConfigMap(name string) bool {
	c.Helper()
	return c.Exists(client.ConfigMaps, name)
}
