package clustertest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// manual is a whole cluster with simulated nodes in this process, on a manual clock.
type manual struct {
	*testing.T
	client.Client
	env   *apiservertest.Env
	clock *clock.Manual
	host  *kubelet.Host
	stops map[string]func() // stop the nodes' kubelets
}

// startManual starts a cluster with the named nodes that ends with the test, and waits until it has settled.
func startManual(t *testing.T, nodes ...string) *manual {
	t.Helper()
	m := clock.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), clock.Real())
	source := clock.NewSource(1)
	env := apiservertest.New(t, func(c *apiserver.Config) { c.Clock, c.Source = m, source })
	c := &manual{T: t, Client: env.Client("test"), env: env, clock: m, stops: map[string]func(){}}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	run := func(ctx context.Context, f func(context.Context) error) {
		in := clock.Starting(m, "a part of the test")
		wg.Go(func() {
			if err := f(in(ctx)); err != nil {
				t.Error(err)
			}
		})
	}
	as := func(name string, groups ...string) client.Client {
		info := &user.DefaultInfo{Name: "system:" + name, Groups: append(groups, user.AllAuthenticated)}
		return env.Server.Client(info, name[strings.LastIndex(name, ":")+1:])
	}
	caches := client.NewCaches(as("kube-controller-manager", user.SystemPrivilegedGroup), m)
	cert, key := env.PKI.Authority()
	run(ctx, caches.Run)
	run(ctx, func(ctx context.Context) error {
		return controllers.Run(ctx, controllers.Config{
			Client: func(name string) client.Client {
				return as("serviceaccount:kube-system:"+name, "system:serviceaccounts", "system:serviceaccounts:kube-system")
			},
			Caches: caches, Clock: m, Source: source, Authority: controller.Authority{Cert: cert, Key: key}, Token: env.Server.SecretToken,
			REST: func(name string) (*rest.Config, error) {
				info := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:" + name, Groups: []string{user.AllAuthenticated}}
				return &rest.Config{Host: "http://localhost", Transport: env.Server.Documents(info), QPS: -1}, nil
			},
		})
	})
	s, err := scheduler.New(scheduler.Config{Client: as("kube-scheduler"), Clock: m, Source: source, Registry: schedplugins.Registry})
	if err != nil {
		t.Fatal(err)
	}
	run(ctx, s.Run)
	store, err := images.New(images.Config{})
	if err != nil {
		t.Fatal(err)
	}
	onNodes := client.NewCaches(as("kubelet", user.SystemPrivilegedGroup), m)
	c.host, err = kubelet.NewHost(kubelet.HostConfig{Caches: onNodes, Images: store, Clock: m, Source: source, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	run(ctx, onNodes.Run)
	run(ctx, c.host.Run)
	runtimes := sim.NewCluster(m, source)
	for _, name := range nodes {
		k, err := kubelet.New(kubelet.Config{
			Node: kubelet.NodeConfig{Name: name, Tier: sim.Tier}, Host: c.host, Client: as("node:"+name, user.NodesGroup), Runtime: runtimes.Runtime(name),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(ctx)
		c.stops[name] = stop
		run(ctx, k.Run)
	}
	c.advance(0)
	return c
}

// advance advances the clock.
func (c *manual) advance(d time.Duration) {
	c.Helper()
	if _, err := c.clock.Advance(c.Context(), c.clock.Now().Add(d), 0); err != nil {
		c.Fatal(err)
	}
}

// apply creates an object from YAML in the namespace default.
func apply[T objects.Object](c *manual, resource schema.GroupVersionResource, obj T, text string) T {
	c.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		c.Fatal(err)
	}
	out, err := c.Create(c.Context(), client.Target{Resource: resource, Namespace: "default"}, obj, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return out.(T)
}

// list returns the objects of a namespace, "" for all.
func list[T objects.Object](c *manual, resource schema.GroupVersionResource, namespace string) []T {
	c.Helper()
	got, err := c.List(c.Context(), client.Target{Resource: resource, Namespace: namespace}, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	var out []T
	for _, obj := range got.Items {
		out = append(out, obj.(T))
	}
	return out
}

// get returns an object of the namespace default, or of none.
func get[T objects.Object](c *manual, resource schema.GroupVersionResource, namespace, name string) T {
	c.Helper()
	got, err := c.Get(c.Context(), client.Target{Resource: resource, Namespace: namespace, Name: name}, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return got.(T)
}
