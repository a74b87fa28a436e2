package controllers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers"
	"github.com/minikctl/minikctl/pkg/objects"
)

// patience bounds how long a test waits for the controllers.
const patience = 20 * time.Second

// cluster is an API server and the controllers, without nodes: pods become ready when the test says so.
type cluster struct {
	testing.TB
	client.Client
	caches *client.Caches
	ctx    context.Context
	env    *apiservertest.Env
}

// start starts a cluster that ends with the test, with the controllers in the server's process and on clk.
func start(t testing.TB, clk clock.Clock) *cluster {
	t.Helper()
	env := apiservertest.New(t)
	as := func(name string, groups ...string) client.Client {
		who := &user.DefaultInfo{Name: "system:" + name, Groups: append(groups, user.AllAuthenticated)}
		return env.Server.Client(who, name[strings.LastIndex(name, ":")+1:])
	}
	return run(t, env, clk, as, func(name string) (discovery.DiscoveryInterface, error) {
		who := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:" + name, Groups: []string{user.AllAuthenticated}}
		return discovery.NewDiscoveryClientForConfig(&rest.Config{Host: "http://localhost", Transport: env.Server.Documents(who), QPS: -1})
	})
}

// startApart is start with the controllers behind HTTP.
func startApart(t testing.TB) *cluster {
	t.Helper()
	env := apiservertest.New(t)
	as := func(name string, _ ...string) client.Client {
		c, err := client.HTTP(env.AdminConfig, name)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	return run(t, env, clock.Real(), as, func(string) (discovery.DiscoveryInterface, error) {
		return discovery.NewDiscoveryClientForConfig(env.AdminConfig)
	})
}

// run runs the controllers of env. as returns a client of the user system:NAME, describe one of what the API says of itself.
func run(t testing.TB, env *apiservertest.Env, clk clock.Clock, as func(name string, groups ...string) client.Client,
	describe func(name string) (discovery.DiscoveryInterface, error),
) *cluster {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	caches := client.NewCaches(as("kube-controller-manager", user.SystemPrivilegedGroup), clk)
	c := &cluster{TB: t, Client: env.Client("test"), caches: caches, ctx: ctx, env: env}
	caches.Pods() // for the tests' own eyes
	ended := make(chan error, 2)
	cert, key := env.PKI.Authority()
	go func() {
		ended <- controllers.Run(ctx, controllers.Config{
			Client: func(name string) client.Client {
				return as("serviceaccount:kube-system:"+name, "system:serviceaccounts", "system:serviceaccounts:kube-system")
			},
			Caches: caches, Clock: clk, Source: clock.NewSource(1), RootCA: []byte("a certificate"),
			Authority: controllers.Authority{Cert: cert, Key: key}, Token: env.Server.SecretToken,
			Describe: describe,
		})
	}()
	go func() { ended <- caches.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("controllers: %v", err)
			}
		}
	})
	return c
}

// until waits for what to be true.
func (c *cluster) until(what string, is func() bool) {
	c.Helper()
	deadline := time.Now().Add(patience) //nolint:forbidigo // the test's own patience
	for !is() {
		if time.Now().After(deadline) { //nolint:forbidigo // the test's own patience
			c.Fatalf("not in time: %s", what)
		}
		select {
		case <-c.ctx.Done():
			c.Fatal(c.ctx.Err())
		case <-time.After(2 * time.Millisecond): //nolint:forbidigo // the test's own patience
		}
	}
}

func create[T objects.Object](c *cluster, resource resourceName, obj T) T {
	c.Helper()
	out, err := c.Create(c.ctx, client.Target{Resource: resource, Namespace: obj.GetNamespace()}, obj, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return out.(T)
}

func get[T objects.Object](c *cluster, resource resourceName, name string) (T, bool) {
	c.Helper()
	obj, err := c.Get(c.ctx, at(resource, name), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		var none T
		return none, false
	}
	if err != nil {
		c.Fatal(err)
	}
	return obj.(T), true
}

func list[T objects.Object](c *cluster, resource resourceName) []T {
	c.Helper()
	l, err := c.List(c.ctx, client.Target{Resource: resource, Namespace: "default"}, metav1.ListOptions{})
	if err != nil {
		c.Fatal(err)
	}
	out := make([]T, len(l.Items))
	for i, obj := range l.Items {
		out[i] = obj.(T)
	}
	return out
}

// at returns the target of name, which is in the namespace default unless it says NAMESPACE/NAME.
func at(resource resourceName, name string) client.Target {
	if ns, n, ok := strings.Cut(name, "/"); ok {
		return client.Target{Resource: resource, Namespace: ns, Name: n}
	}
	return client.Target{Resource: resource, Namespace: "default", Name: name}
}

func (c *cluster) patch(t client.Target, patch string) {
	c.Helper()
	p := client.Patch{Type: types.StrategicMergePatchType, Data: []byte(patch)}
	if _, err := c.Patch(c.ctx, t, p, metav1.PatchOptions{}); err != nil {
		c.Fatalf("patch %s %s: %v", t.Resource.Resource, t.Name, err)
	}
}

// ready makes all pods of the namespace default that are not being deleted Running and Ready.
func (c *cluster) ready() {
	for _, p := range list[*corev1.Pod](c, client.Pods) {
		if p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil {
			continue
		}
		t := at(client.Pods, p.Name).Sub("status")
		status := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`,
			p.UID, p.CreationTimestamp.UTC().Format(time.RFC3339))
		_, err := c.Patch(c.ctx, t, client.Patch{Type: types.StrategicMergePatchType, Data: []byte(status)}, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			c.Fatal(err)
		}
	}
}

// rolledOut waits until the deployment is complete, with every pod made ready as it comes.
func (c *cluster) rolledOut(name string) *appsv1.Deployment {
	c.Helper()
	var d *appsv1.Deployment
	c.until("deployment "+name+" rolled out", func() bool {
		c.ready()
		d, _ = get[*appsv1.Deployment](c, client.Deployments, name)
		s := d.Status
		return s.ObservedGeneration == d.Generation && s.Replicas == *d.Spec.Replicas && s.UpdatedReplicas == s.Replicas &&
			s.AvailableReplicas == s.Replicas && reason(d, appsv1.DeploymentProgressing) == "NewReplicaSetAvailable" &&
			c.terminated(name)
	})
	return d
}

// terminated reports whether the sets of a deployment have the pods that they say.
func (c *cluster) terminated(name string) bool {
	for _, s := range list[*appsv1.ReplicaSet](c, client.ReplicaSets) {
		if s.Labels["app"] == name && (s.Status.ObservedGeneration != s.Generation || s.Status.Replicas != *s.Spec.Replicas) {
			return false
		}
	}
	return true
}

func reason(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) string {
	i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
	if i < 0 {
		return ""
	}
	return d.Status.Conditions[i].Reason
}

// events returns the messages of the events about an object, with their reasons.
func (c *cluster) events(name string) []string {
	c.Helper()
	var out []string
	for _, e := range list[*corev1.Event](c, client.Events) {
		if e.InvolvedObject.Name == name {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	slices.Sort(out)
	return out
}
