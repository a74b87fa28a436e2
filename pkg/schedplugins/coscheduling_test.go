package schedplugins

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// coscheduled is a configuration with the plugin Coscheduling, which has these arguments.
func coscheduled(t testing.TB, args string) *configv1.KubeSchedulerConfiguration {
	return config(t, fmt.Sprintf(`profiles:
- plugins:
    multiPoint: {enabled: [{name: Coscheduling}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
  pluginConfig:
  - name: Coscheduling
    args: {%s}
`, args))
}

// newCoscheduledCluster starts a cluster with the PodGroups of scheduling.x-k8s.io and a scheduler with the plugin Coscheduling.
func newCoscheduledCluster(t testing.TB, seed uint64, args string) *virtualCluster {
	t.Helper()
	v := newVirtualCluster(t, seed)
	v.defineLabelledPodGroups()
	v.start(func(cfg *scheduler.Config) { cfg.Config = coscheduled(t, args) })
	return v
}

// defineLabelledPodGroups creates the CustomResourceDefinition of scheduling.x-k8s.io.
func (v *virtualCluster) defineLabelledPodGroups() {
	v.t.Helper()
	text, err := os.ReadFile("../../examples/gangs/coscheduling.yaml")
	if err != nil {
		v.t.Fatal(err)
	}
	definition, _, _ := strings.Cut(string(text), "---\n")
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(definition), crd); err != nil {
		v.t.Fatal(err)
	}
	v.create(client.Target{Resource: apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")}, crd)
	v.advance(0)
}

// labelledPodGroup creates a PodGroup of scheduling.x-k8s.io. more is the rest of its spec.
func (v *virtualCluster) labelledPodGroup(name string, minMember int, more string) {
	v.t.Helper()
	group := &unstructured.Unstructured{}
	text := fmt.Sprintf("{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: %s, namespace: default}, spec: {minMember: %d%s}}", name, minMember, more)
	if err := yaml.Unmarshal([]byte(text), group); err != nil {
		v.t.Fatal(err)
	}
	v.create(client.Target{Resource: coschedulingResource, Namespace: "default"}, group)
}

func inLabelledGroup(group string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels = map[string]string{coschedulingLabel: group} }
}

func gated(p *corev1.Pod) {
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
}

// attempts returns the number of the last attempt to schedule a pod.
func (v *virtualCluster) attempts(pod string) (n int) {
	v.t.Helper()
	list, err := v.client.List(v.ctx, client.Target{Resource: minikctl.Decisions, Namespace: "default"}, metav1.ListOptions{LabelSelector: minikctl.PodLabel + "=" + pod})
	if err != nil {
		v.t.Fatal(err)
	}
	for _, obj := range list.Items {
		n = max(n, int(obj.(*minikctl.Decision).Attempt))
	}
	return n
}

// TestCoschedulingIncompleteGroup checks that the pods of a group that is not complete are tried once, whatever else happens, and that the pod that completes it
// starts all of them.
func TestCoschedulingIncompleteGroup(t *testing.T) {
	v := newCoscheduledCluster(t, 1, "")
	v.node("n", "20")
	v.labelledPodGroup("g", 3, "")
	v.pod("g0", "1", inLabelledGroup("g"))
	v.advance(time.Second)
	v.pod("g1", "1", inLabelledGroup("g"))
	v.advance(time.Second)
	const want = "0/1 nodes are available: pre-filter pod g1 cannot find enough sibling pods, current pods number: 2, minMember of group: 3."
	if got := v.condition("g1"); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range 10 {
		v.pod(fmt.Sprintf("other%d", i), "1")
		v.advance(10 * time.Second)
		if i%2 == 0 {
			v.remove(fmt.Sprintf("other%d", i))
		}
	}
	for _, name := range []string{"g0", "g1"} {
		if n := v.attempts(name); n != 1 {
			t.Errorf("%s was tried %d times", name, n)
		}
	}
	v.pod("g2", "1", inLabelledGroup("g"))
	v.advance(0)
	if n := v.boundPods("g0", "g1", "g2"); n != 3 {
		t.Errorf("%d pods of the complete group are bound", n)
	}
	v.pod("lone", "1", inLabelledGroup("none"))
	v.advance(time.Second)
	v.pod("last", "1")
	v.advance(time.Minute)
	if n := v.attempts("lone"); n != 1 {
		t.Errorf("the pod without a PodGroup was tried %d times", n)
	}
	v.labelledPodGroup("none", 1, "")
	v.advance(time.Minute)
	if v.boundPods("lone") != 1 {
		t.Error("the pod whose PodGroup has come is not bound")
	}
}

// TestCoschedulingGatedPods checks that pods with scheduling gates do not count for a group.
func TestCoschedulingGatedPods(t *testing.T) {
	v := newCoscheduledCluster(t, 1, "")
	v.node("n", "20")
	v.labelledPodGroup("g", 2, "")
	v.pod("g1", "1", inLabelledGroup("g"), gated)
	v.pod("g0", "1", inLabelledGroup("g"))
	v.advance(time.Minute)
	if want := "0/1 nodes are available: pre-filter pod g0 cannot proceed due to gated pods in the same PodGroup."; !strings.HasPrefix(v.condition("g0"), want) {
		t.Errorf("got %q, want %q", v.condition("g0"), want)
	}
	v.pod("other", "1")
	v.advance(time.Minute)
	if n := v.attempts("g0"); n != 1 {
		t.Errorf("the pod was tried %d times", n)
	}
	ungated := v.allPods()["g1"].DeepCopy()
	ungated.Spec.SchedulingGates = nil
	if _, err := v.client.Update(v.ctx, client.Target{Resource: client.Pods, Namespace: "default", Name: "g1"}, ungated, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	v.advance(0)
	if n := v.boundPods("g0", "g1"); n != 2 {
		t.Errorf("%d pods are bound", n)
	}
}

// TestCoschedulingBackoff checks that a group in backoff is not tried, and is tried when its backoff ends, without any event.
func TestCoschedulingBackoff(t *testing.T) {
	v := newCoscheduledCluster(t, 1, "podGroupBackoffSeconds: 40")
	v.node("n", "1")
	v.labelledPodGroup("g", 2, "")
	v.pod("g0", "1", inLabelledGroup("g"))
	v.pod("g1", "1", inLabelledGroup("g"))
	v.advance(5 * time.Second)
	v.resize("n", "2")
	v.advance(30 * time.Second)
	if n := v.boundPods("g0", "g1"); n != 0 {
		t.Errorf("%d pods are bound during the backoff", n)
	}
	if message := v.condition("g0") + v.condition("g1"); !strings.Contains(message, "podGroup default/g failed recently") {
		t.Errorf("the conditions are %q", message)
	}
	v.advance(6 * time.Second)
	if n := v.boundPods("g0", "g1"); n != 2 {
		t.Errorf("%d pods are bound after the backoff: %q, %q", n, v.condition("g0"), v.condition("g1"))
	}
}

// TestCoschedulingMinResources checks that a group is tried when a node with its minResources comes.
func TestCoschedulingMinResources(t *testing.T) {
	v := newCoscheduledCluster(t, 1, "")
	v.node("n", "2")
	v.labelledPodGroup("g", 2, ", minResources: {cpu: 4}")
	for i := range 2 {
		v.pod(fmt.Sprintf("g%d", i), "2", inLabelledGroup("g"))
	}
	v.advance(20 * time.Second)
	if got := v.condition("g1"); !strings.HasPrefix(got, "0/1 nodes are available: resource gap: ") || v.attempts("g1") != 1 {
		t.Errorf("got %q after %d attempts", got, v.attempts("g1"))
	}
	v.node("m", "2")
	v.advance(20 * time.Second)
	if n := v.boundPods("g0", "g1"); n != 2 {
		t.Errorf("%d pods are bound: %q, %q", n, v.condition("g0"), v.condition("g1"))
	}
}

// TestCoschedulingRejectPercentage checks that the pods that wait are not rejected while no more than the given part of minMember finds no node.
func TestCoschedulingRejectPercentage(t *testing.T) {
	for percentage, held := range map[int]int{10: 0, 49: 0, 50: 1, 100: 1} {
		t.Run(fmt.Sprint(percentage), func(t *testing.T) {
			v := newCoscheduledCluster(t, 1, fmt.Sprintf("podGroupRejectPercentage: %d, permitWaitingTimeSeconds: 600", percentage))
			v.node("n", "1")
			v.labelledPodGroup("g", 2, "")
			v.pod("g0", "1", inLabelledGroup("g"))
			v.pod("g1", "1", inLabelledGroup("g"))
			v.advance(0)
			v.pod("alone", "1")
			v.advance(5 * time.Minute)
			if n := v.boundPods("alone"); n != 1-held {
				t.Errorf("%d pods have the room that a pod of the group waits on", n)
			}
		})
	}
	for args, want := range map[string]string{
		"podGroupRejectPercentage: -1":  `podGroupRejectPercentage: Invalid value: -1: must be between 0 and 100`,
		"podGroupRejectPercentage: 101": `podGroupRejectPercentage: Invalid value: 101: must be between 0 and 100`,
		"podGroupBackoffSeconds: -1":    `podGroupBackoffSeconds: Invalid value: -1: must be greater than 0`,
	} {
		_, err := scheduler.NewSandbox(t.Context(), scheduler.Simulation{Registry: Registry, Config: coscheduled(t, args)}, 1)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// groupsHandle is the Handle of a scheduler with PodGroups, at a time.
type groupsHandle struct {
	framework.Handle
	scheduler.APIHandle
	groups map[objects.Key]objects.Object
	clock  *clock.Manual
}

func (h *groupsHandle) Clock() clock.Clock { return h.clock }
func (h *groupsHandle) Object(_ framework.EventResource, key objects.Key) (objects.Object, bool) {
	obj, ok := h.groups[key]
	return obj, ok
}
func (*groupsHandle) IterateOverWaitingPods(func(framework.WaitingPod)) {}

// queued is a pod in the queue since a time.
type queued struct {
	framework.QueuedPodInfo
	framework.PodInfo
	pod   *corev1.Pod
	since time.Time
}

func (q *queued) GetPodInfo() framework.PodInfo          { return q }
func (q *queued) GetPod() *corev1.Pod                    { return q.pod }
func (q *queued) GetInitialAttemptTimestamp() *time.Time { return &q.since }

// TestCoschedulingOrder checks that a group that was rejected comes after the groups and pods that have waited since before.
func TestCoschedulingOrder(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	h := &groupsHandle{groups: map[objects.Key]objects.Object{}, clock: clock.NewManual(at(100), clock.Real())}
	made, err := newCoscheduling(defaultCoscheduling(), h)
	if err != nil {
		t.Fatal(err)
	}
	p := made.(*coscheduling)
	pod := func(name string, second int64, group string) *queued {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{}}}
		if group != "" {
			inLabelledGroup(group)(pod)
			obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(2)}}}
			obj.SetCreationTimestamp(metav1.NewTime(at(second)))
			h.groups[objects.Key{Namespace: "default", Name: group}] = obj
		}
		return &queued{pod: pod, since: at(second)}
	}
	pods := []*queued{pod("old", 10, "a"), pod("middle", 20, "b"), pod("alone", 30, "")}
	order := func() string {
		sorted := slices.SortedFunc(slices.Values(pods), func(a, b *queued) int {
			if p.Less(a, b) {
				return -1
			}
			return 1
		})
		return fmt.Sprint(sorted[0].pod.Name, " ", sorted[1].pod.Name, " ", sorted[2].pod.Name)
	}
	if got := order(); got != "old middle alone" {
		t.Errorf("got %s", got)
	}
	p.Unreserve(t.Context(), nil, pods[0].pod, "")
	if got := order(); got != "middle alone old" {
		t.Errorf("got %s once the oldest was rejected", got)
	}
	delete(h.groups, objects.Key{Namespace: "default", Name: "a"})
	p.Unreserve(t.Context(), nil, pods[1].pod, "")
	if _, kept := p.failed[objects.Key{Namespace: "default", Name: "a"}]; kept {
		t.Error("a group that was deleted is remembered")
	}
}

// TestCoschedulingOrderOfQueuedPods checks that the pods of a group that was rejected come after the groups that have waited since before, even if they were
// queued before this.
func TestCoschedulingOrderOfQueuedPods(t *testing.T) {
	closed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Unschedulable: true}} // rejects each group with each of its pods
	box, err := scheduler.NewSandbox(t.Context(), scheduler.Simulation{Registry: Registry, Config: coscheduled(t, ""), Nodes: []*corev1.Node{closed}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(t.Context())
	names := []string{"a", "b", "c", "d"}
	for i, name := range names {
		group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(3)}}}
		group.SetNamespace("default")
		group.SetName(name)
		group.SetCreationTimestamp(metav1.NewTime(time.Unix(int64(i), 0)))
		box.SetObject(t.Context(), coschedulingGroups, group)
	}
	for i := range 3 * len(names) {
		name := names[i%len(names)]
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint(name, i/len(names)), Labels: map[string]string{}}}
		pod.UID, pod.Spec.SchedulerName = types.UID(pod.Name), corev1.DefaultSchedulerName
		inLabelledGroup(name)(pod)
		if err := box.SetPod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range strings.Fields("a0 b0 c0 d0 a1 b1 c1 d1 a2 b2 c2 d2") {
		tried := box.Next(t.Context())
		if len(tried) != 1 || tried[0].Pod.Name != want {
			t.Fatalf("tried %s, want %s", tried[0].Pod.Name, want)
		}
	}
}

// TestCoschedulingPartialRoom checks that a group of which only some pods find a node is tried again and again at intervals, and that it is bound soon when
// there is room. A group of which some pods find a node, and which needs no more than these, is bound, whatever the order of its pods.
func TestCoschedulingPartialRoom(t *testing.T) {
	v := newCoscheduledCluster(t, 1, "")
	v.node("n", "3")
	v.labelledPodGroup("g", 2, "")
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprintf("g%d", i))
		v.pod(names[i], "2", inLabelledGroup("g"))
	}
	v.advance(time.Minute)
	for _, name := range names {
		if n := v.attempts(name); n > 100 {
			t.Errorf("%s was tried %d times in a minute", name, n)
		}
	}
	v.pod("other", "3")
	v.advance(time.Minute)
	if v.boundPods("other") != 1 {
		t.Error("the group keeps the room that it cannot use")
	}
	v.node("m", "4")
	v.advance(lastRound)
	if n := v.boundPods(names...); n != 2 {
		t.Errorf("%d pods are bound", n)
	}

	v = newCoscheduledCluster(t, 1, "")
	v.node("n", "2")
	v.labelledPodGroup("g", 2, "")
	v.pod("g0", "1", inLabelledGroup("g"))
	v.pod("g1", "5", inLabelledGroup("g"))
	v.pod("g2", "1", inLabelledGroup("g"))
	v.advance(time.Minute)
	if n := v.boundPods("g0", "g2"); n != 2 {
		t.Errorf("%d of the two pods that find a node are bound", n)
	}
}
