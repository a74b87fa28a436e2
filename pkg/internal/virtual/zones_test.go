package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/objects"
)

// fleet is a cluster whose nodes have no kubelets: the test renews their Leases.
type fleet struct {
	*virtual.Cluster
	silent map[string]bool
	names  []string
}

// startFleet starts a cluster with a number of nodes in each of two zones, called a-0, a-1, … and b-0, b-1, …
func startFleet(t *testing.T, a, b int) *fleet {
	t.Helper()
	return startFleetIn(t, virtual.Config{}, a, b)
}

func startFleetIn(t *testing.T, cfg virtual.Config, a, b int) *fleet {
	t.Helper()
	f := &fleet{Cluster: virtual.Start(t, cfg), silent: map[string]bool{}}
	for zone, count := range map[string]int{"a": a, "b": b} {
		for i := range count {
			name := fmt.Sprintf("%s-%d", zone, i)
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: corev1.NamespaceNodeLease}}
			f.create(client.Target{Resource: client.Leases, Namespace: corev1.NamespaceNodeLease}, lease)
			f.create(client.Target{Resource: client.Nodes}, n)
			f.report(name, "True")
			f.names = append(f.names, name)
		}
	}
	slices.Sort(f.names)
	f.Advance(0)
	return f
}

func (f *fleet) create(t client.Target, obj objects.Object) {
	f.Helper()
	if _, err := f.Create(f.Context(), t, obj, metav1.CreateOptions{}); err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) merge(t client.Target, patch string) {
	f.Helper()
	if _, err := f.Patch(f.Context(), t, client.Patch{Type: types.StrategicMergePatchType, Data: []byte(patch)}, metav1.PatchOptions{}); err != nil {
		f.Fatal(err)
	}
}

// report writes the condition Ready as a node's kubelet does.
func (f *fleet) report(name, status string) {
	f.Helper()
	f.merge(client.Target{Resource: client.Nodes, Name: name, Subresource: "status"},
		fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"lastHeartbeatTime":%q}]}}`, status, f.Clock.Now().Format(time.RFC3339)))
}

// silence ends the heartbeats of the first nodes of a zone.
func (f *fleet) silence(zone string, count int) {
	for i := range count {
		f.silent[fmt.Sprintf("%s-%d", zone, i)] = true
	}
}

// wake lets silent nodes report again.
func (f *fleet) wake(names ...string) {
	f.Helper()
	for _, name := range names {
		delete(f.silent, name)
		f.report(name, "True")
	}
	f.Advance(0)
}

// pass lets time pass. The nodes that are not silent renew their Leases every 10 seconds.
func (f *fleet) pass(d time.Duration) {
	f.Helper()
	for ; d > 0; d -= 10 * time.Second {
		for _, name := range f.names {
			if !f.silent[name] {
				f.merge(client.Target{Resource: client.Leases, Namespace: corev1.NamespaceNodeLease, Name: name},
					fmt.Sprintf(`{"spec":{"renewTime":%q}}`, f.Clock.Now().Format(metav1.RFC3339Micro)))
			}
		}
		f.Advance(min(d, 10*time.Second))
	}
}

// tainted returns the nodes with a taint of the node lifecycle and this effect.
func (f *fleet) tainted(effect corev1.TaintEffect) []string {
	f.Helper()
	list, err := f.List(f.Context(), client.Target{Resource: client.Nodes}, metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	var out []string
	for _, obj := range list.Items {
		n := obj.(*corev1.Node)
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect == effect }) {
			out = append(out, n.Name)
		}
	}
	return out
}

// want fails the test unless a number of nodes has each effect.
func (f *fleet) want(what string, noSchedule, noExecute int) {
	f.Helper()
	if got := len(f.tainted(corev1.TaintEffectNoSchedule)); got != noSchedule {
		f.Errorf("%s: %d nodes have NoSchedule, want %d", what, got, noSchedule)
	}
	if got := len(f.tainted(corev1.TaintEffectNoExecute)); got != noExecute {
		f.Errorf("%s: %d nodes have NoExecute, want %d", what, got, noExecute)
	}
}

// TestZoneLosesFewNodes: they are evicted one every 10 seconds.
func TestZoneLosesFewNodes(t *testing.T) {
	f := startFleet(t, 10, 2)
	f.pass(10 * time.Second)
	f.want("all ready", 0, 0)
	f.silence("a", 4)
	f.pass(45 * time.Second) // the last heartbeat was 10 s before
	f.want("unreachable", 4, 0)
	f.pass(10 * time.Second)
	f.want("a monitor period later", 4, 1)
	f.pass(10 * time.Second)
	f.want("10 s later", 4, 2)
	f.pass(10 * time.Second)
	f.want("20 s later", 4, 3)
	f.wake("a-0", "a-1", "a-2", "a-3")
	f.want("ready again", 0, 0)
}

// TestZoneLosesManyNodes: of a small zone none is evicted, until fewer are unreachable; of a large one few are.
func TestZoneLosesManyNodes(t *testing.T) {
	t.Run("small", func(t *testing.T) {
		f := startFleet(t, 10, 4)
		f.pass(10 * time.Second)
		f.silence("a", 6)
		f.silence("b", 1)
		f.pass(30 * time.Minute)
		f.want("partially disrupted", 7, 1)
		if got := f.tainted(corev1.TaintEffectNoExecute); !slices.Equal(got, []string{"b-0"}) {
			t.Errorf("evicted: %v, want that of the other zone", got)
		}
		f.wake("a-0")
		f.pass(10 * time.Second)
		f.want("fewer", 6, 2)
		f.pass(10 * time.Second)
		f.want("and 10 s later", 6, 3)
	})
	t.Run("large", func(t *testing.T) {
		f := startFleet(t, 51, 1)
		f.pass(10 * time.Second)
		f.silence("a", 40)
		f.pass(10 * time.Minute)
		if got := len(f.tainted(corev1.TaintEffectNoExecute)); got < 5 || got > 6 {
			t.Errorf("%d nodes were evicted in 10 minutes, want one every 100 s", got)
		}
	})
}

// TestZoneLosesAllNodes: they are evicted at the usual rate while another zone is ready.
func TestZoneLosesAllNodes(t *testing.T) {
	f := startFleet(t, 5, 1)
	f.pass(10 * time.Second)
	f.silence("a", 5)
	f.pass(45 * time.Second)
	f.want("unreachable", 5, 0)
	f.pass(45 * time.Second)
	f.want("45 s later", 5, 5)
}

// TestAllZonesLoseAllNodes: no node is evicted, and nodes that were are no longer. They get their grace period again when a node is back.
func TestAllZonesLoseAllNodes(t *testing.T) {
	f := startFleet(t, 3, 2)
	f.pass(10 * time.Second)
	f.silence("b", 1)
	f.pass(5 * time.Minute)
	f.want("one node", 1, 1)
	f.silence("a", 3)
	f.silence("b", 2)
	f.pass(5 * time.Minute)
	f.want("all nodes", 5, 0)
	f.wake("a-0")
	f.want("one is back", 4, 0)
	f.pass(10 * time.Second)
	f.want("10 s later", 4, 2) // one of each zone
	f.RestartControllers()
	f.Advance(0)
	f.want("after a restart", 4, 2)
}

// conflicting is a client whose updates that remove the NoExecute taint of a node conflict a number of times.
type conflicting struct {
	client.Client
	node string
	left *atomic.Int32
}

func (c conflicting) Update(ctx context.Context, t client.Target, obj runtime.Object, opts metav1.UpdateOptions) (runtime.Object, error) {
	n, ok := obj.(*corev1.Node)
	if ok && n.Name == c.node && t.Subresource == "" && len(n.Spec.Taints) == 1 && n.Spec.Taints[0].Effect == corev1.TaintEffectNoSchedule && c.left.Add(-1) >= 0 {
		return nil, apierrors.NewConflict(t.Resource.GroupResource(), n.Name, errors.New("changed meanwhile"))
	}
	return c.Client.Update(ctx, t, obj, opts)
}

// TestAllZonesLoseAllNodesWithConflicts: conflicts don't keep a node evicted when all nodes are lost.
func TestAllZonesLoseAllNodesWithConflicts(t *testing.T) {
	var left atomic.Int32
	f := startFleetIn(t, virtual.Config{Client: func(_ string, c client.Client) client.Client { return conflicting{c, "b-0", &left} }}, 3, 2)
	f.pass(10 * time.Second)
	f.silence("b", 1)
	f.pass(5 * time.Minute)
	f.want("one node", 1, 1)
	left.Store(2)
	f.silence("a", 3)
	f.silence("b", 2)
	f.pass(5 * time.Minute)
	f.want("all nodes", 5, 0)
	if n := left.Load(); n >= 0 {
		t.Errorf("%d conflicts did not happen", n)
	}
}

// TestExcludedFromDisruption: nodes with the label do not count for their zone.
func TestExcludedFromDisruption(t *testing.T) {
	f := startFleet(t, 5, 0)
	f.merge(client.Target{Resource: client.Nodes, Name: "a-4"}, `{"metadata":{"labels":{"node.kubernetes.io/exclude-disruption":""}}}`)
	f.silence("a", 4)
	f.pass(5 * time.Minute)
	f.want("all that count", 4, 0)
}

// TestPodsOfNodesThatAreNotReady: the pods of an unreachable node are marked as not ready, also those that come later. Those of a node whose
// kubelet says that it is not ready are not.
func TestPodsOfNodesThatAreNotReady(t *testing.T) {
	f := startFleet(t, 3, 0)
	pod := func(name, node string) client.Target {
		f.create(client.Target{Resource: client.Pods, Namespace: "default"}, &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "c"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		}})
		return client.Target{Resource: client.Pods, Namespace: "default", Name: name}
	}
	ready := func(t client.Target) corev1.ConditionStatus {
		f.Helper()
		got, err := f.Get(f.Context(), t, metav1.GetOptions{})
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range got.(*corev1.Pod).Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status
			}
		}
		return ""
	}
	const running = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
	silent, unready := pod("silent", "a-0"), pod("unready", "a-1")
	f.merge(silent.Sub("status"), running)
	f.merge(unready.Sub("status"), running)
	f.report("a-1", "False")
	f.silence("a", 1)
	f.pass(70 * time.Second)
	if got := ready(silent); got != corev1.ConditionFalse {
		t.Errorf("the pod of an unreachable node has Ready %s", got)
	}
	if got := ready(unready); got != corev1.ConditionTrue {
		t.Errorf("the pod of a node that says that it is not ready has Ready %s", got)
	}
	events := f.eventsOf("silent", "NodeNotReady")
	if !slices.Equal(events, []string{"Warning Node is not ready"}) {
		t.Errorf("events of the pod: %q", events)
	}
	if got := f.eventsOf("a-0", "NodeNotReady"); !slices.Equal(got, []string{"Normal Node a-0 status is now: NodeNotReady"}) {
		t.Errorf("events of the unreachable node: %q", got)
	}
	if got := f.eventsOf("a-1", "NodeNotReady"); len(got) > 0 {
		t.Errorf("events of the node that says that it is not ready: %q", got)
	}

	// A kubelet that reaches the API again may say that the pod is ready before the node is.
	f.merge(silent.Sub("status"), running)
	f.Advance(time.Minute)
	if got := ready(silent); got != corev1.ConditionTrue {
		t.Errorf("the pod was marked again: Ready is %s", got)
	}
	later := &corev1.Pod{ObjectMeta: meta("later"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
	later.Spec.SchedulerName = "none"
	f.create(client.Target{Resource: client.Pods, Namespace: "default"}, later)
	at := client.Target{Resource: client.Pods, Namespace: "default", Name: "later"}
	f.merge(at.Sub("status"), `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`)
	f.create(at.Sub("binding"), &corev1.Binding{ObjectMeta: meta("later"), Target: corev1.ObjectReference{Kind: "Node", Name: "a-0"}})
	f.Advance(0)
	if got := ready(at); got != corev1.ConditionFalse {
		t.Errorf("the pod that was bound to an unreachable node has Ready %s", got)
	}
}

// eventsOf returns the types and messages of the Events about an object with a reason.
func (f *fleet) eventsOf(name, reason string) []string {
	f.Helper()
	list, err := f.List(f.Context(), client.Target{Resource: client.Events, Namespace: "default"}, metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	var out []string
	for _, obj := range list.Items {
		if e := obj.(*corev1.Event); e.InvolvedObject.Name == name && e.Reason == reason {
			out = append(out, e.Type+" "+e.Message)
		}
	}
	return out
}

// TestTTLAnnotation: nodes have the time for which kubelets may keep objects, also after a change by another client.
func TestTTLAnnotation(t *testing.T) {
	f := startFleet(t, 1, 0)
	f.merge(client.Target{Resource: client.Nodes, Name: "a-0"}, `{"metadata":{"annotations":{"node.alpha.kubernetes.io/ttl":"7"}}}`)
	f.Advance(0)
	got, err := f.Get(t.Context(), client.Target{Resource: client.Nodes, Name: "a-0"}, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if ttl := got.(*corev1.Node).Annotations["node.alpha.kubernetes.io/ttl"]; ttl != "0" {
		t.Errorf("the annotation is %q", ttl)
	}
}

// TestBetaLabels: the deprecated labels of a node follow the well-known ones.
func TestBetaLabels(t *testing.T) {
	f := startFleet(t, 1, 0)
	f.merge(client.Target{Resource: client.Nodes, Name: "a-0"}, `{"metadata":{"labels":{"kubernetes.io/os":"linux","kubernetes.io/arch":"arm64","beta.kubernetes.io/arch":"amd64"}}}`)
	f.Advance(0)
	got, err := f.Get(t.Context(), client.Target{Resource: client.Nodes, Name: "a-0"}, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if l := got.(*corev1.Node).Labels; l["beta.kubernetes.io/os"] != "linux" || l["beta.kubernetes.io/arch"] != "arm64" {
		t.Errorf("labels: %v", l)
	}
}
