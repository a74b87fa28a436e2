package virtual_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/kubelet"
)

// TestDayAtRest: a cluster with nothing to do passes a day in few steps, and its Leases are as new as if all had been renewed.
func TestDayAtRest(t *testing.T) {
	c := virtual.Start(t, virtual.Config{Nodes: []string{"a", "b", "c"}, Concurrent: true})
	createDeployment(c, 3)
	c.Advance(2 * time.Hour) // the Events of the start expire
	p, err := c.Clock.Advance(t.Context(), c.Clock.Now().Add(24*time.Hour), 0)
	if err != nil {
		t.Fatal(err)
	}
	if p.Steps > 200 {
		t.Errorf("a day took %d steps", p.Steps)
	}
	for _, name := range []string{"a", "b", "c"} {
		lease := get[*coordinationv1.Lease](c, client.Target{Resource: client.Leases, Namespace: corev1.NamespaceNodeLease, Name: name})
		if age := c.Clock.Since(lease.Spec.RenewTime.Time); age >= 10*time.Second {
			t.Errorf("the lease of %s is %s old", name, age)
		}
	}
}

// TestNodesAtRest: nodes that fall silent while nothing else happens, and their pods, change at the same times whether the time is advanced by
// hours or by seconds.
func TestNodesAtRest(t *testing.T) {
	takesTurns(t)
	var runs [2][]string
	for i, step := range []time.Duration{time.Hour, 5 * time.Second} {
		c := virtual.Start(t, virtual.Config{Nodes: []string{"a", "b", "c"}})
		createDeployment(c, 3)
		c.Advance(2 * time.Hour)
		seen := followNodes(c)
		for _, node := range []string{"b", "c"} {
			sleep(c, 33*time.Minute+7*time.Second, step)
			patchNode(c, node, kubelet.SimDown)
			sleep(c, time.Hour, step)
		}
		patchNode(c, "b", "")
		sleep(c, time.Hour, step)
		runs[i] = seen()
	}
	if len(runs[0]) == 0 || !slices.Equal(runs[0], runs[1]) {
		t.Errorf("by hours:\n%s\nby seconds:\n%s", strings.Join(runs[0], "\n"), strings.Join(runs[1], "\n"))
	}
}

// sleep advances by d in steps.
func sleep(c *virtual.Cluster, d, step time.Duration) {
	for ; d > 0; d -= step {
		c.Advance(min(d, step))
	}
}

func patchNode(c *virtual.Cluster, name, state string) {
	c.Helper()
	patch := client.Patch{Type: types.MergePatchType, Data: fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, kubelet.SimNode, state)}
	if _, err := c.Patch(c.Context(), client.Target{Resource: client.Nodes, Name: name}, patch, metav1.PatchOptions{}); err != nil {
		c.Fatal(err)
	}
}

func get[T any](c *virtual.Cluster, target client.Target) T {
	c.Helper()
	got, err := c.Get(c.Context(), target, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return got.(T)
}

// followNodes returns a function that returns the changes of nodes and pods since the call, with their times. Changes of one second are sorted.
func followNodes(c *virtual.Cluster) func() []string {
	c.Helper()
	caches := client.NewCaches(c, c.Clock)
	var mu sync.Mutex // nodes and pods change at the same time
	var lines []string
	last := map[string]string{}
	note := func(name, state string) {
		mu.Lock()
		defer mu.Unlock()
		if last[name] != state {
			last[name] = state
			lines = append(lines, fmt.Sprintf("%s %s %s", c.Clock.Now().Format(time.TimeOnly), name, state))
		}
	}
	caches.Nodes().Subscribe(func(ch client.Change[*corev1.Node]) {
		state := ""
		for _, cond := range ch.New.Status.Conditions {
			state += fmt.Sprintf("%s=%s since %s ", cond.Type, cond.Status, cond.LastTransitionTime.Format(time.TimeOnly))
		}
		for _, taint := range ch.New.Spec.Taints {
			state += taint.ToString() + " "
		}
		note(ch.New.Name, state)
	})
	caches.Pods().Subscribe(func(ch client.Change[*corev1.Pod]) {
		if ch.Deleted() {
			note(ch.Old.Name, "gone")
			return
		}
		note(ch.New.Name, fmt.Sprintf("%s on %s, deleted at %v", ch.New.Status.Phase, ch.New.Spec.NodeName, ch.New.DeletionTimestamp))
	})
	ctx, stop := context.WithCancel(c.Context())
	done := make(chan error, 1)
	go func() { done <- caches.Run(ctx) }()
	if err := caches.WaitSynced(ctx); err != nil {
		c.Fatal(err)
	}
	return func() []string {
		c.Advance(0)
		stop()
		if err := <-done; err != nil {
			c.Error(err)
		}
		slices.Sort(lines)
		return lines
	}
}

// createDeployment creates a Deployment and waits until its pods are there.
func createDeployment(c *virtual.Cluster, replicas int32) {
	c.Helper()
	spec := appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: podTemplate("web"),
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: metav1.NamespaceDefault}, Spec: spec}
	if _, err := c.Create(c.Context(), client.Target{Resource: client.Deployments, Namespace: d.Namespace}, d, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
	c.Advance(0)
}

// TestEventsAfterRest: an Event expires after an hour, also one that is written when there were none for long.
func TestEventsAfterRest(t *testing.T) {
	c := virtual.Start(t, virtual.Config{})
	c.Advance(5*time.Hour + 17*time.Minute)
	ev := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: metav1.NamespaceDefault}, LastTimestamp: metav1.NewTime(c.Clock.Now())}
	ev.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Namespace: ev.Namespace, Name: "p"}
	target := client.Target{Resource: client.Events, Namespace: ev.Namespace}
	if _, err := c.Create(t.Context(), target, ev, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		l, err := c.List(t.Context(), target, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(l.Items)
	}
	c.Advance(time.Hour)
	if count() != 1 {
		t.Error("it has expired too early")
	}
	if c.Advance(2 * time.Minute); count() != 0 {
		t.Error("it has not expired")
	}
}
