package schedplugins

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// CoschedulingArgs are the arguments of Coscheduling, as those of the plugin of this name in kubernetes-sigs/scheduler-plugins.
type CoschedulingArgs struct {
	metav1.TypeMeta `json:",inline"`

	// PermitWaitingTimeSeconds is how long a pod waits in Permit for others of its group, unless the PodGroup sets scheduleTimeoutSeconds.
	PermitWaitingTimeSeconds int64 `json:"permitWaitingTimeSeconds"`
	// PodGroupBackoffSeconds is how long a group is not tried again after it was rejected; 0: no backoff.
	PodGroupBackoffSeconds int64 `json:"podGroupBackoffSeconds"`
	// PodGroupRejectPercentage is the part of minMember, in percent, that may lack a node without the pods of the group that wait being rejected
	// when another of its pods finds no node.
	PodGroupRejectPercentage int32 `json:"podGroupRejectPercentage"`
}

// DeepCopyObject implements runtime.Object.
func (a *CoschedulingArgs) DeepCopyObject() runtime.Object {
	out := *a
	return &out
}

const (
	coschedulingLabel = "scheduling.x-k8s.io/pod-group"
	// coschedulingGroups are the PodGroups of the CustomResourceDefinition, as a resource of events.
	coschedulingGroups framework.EventResource = "podgroups.v1alpha1.scheduling.x-k8s.io"
)

var coschedulingResource = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// byLabel finds the pods of a group by NAMESPACE/NAME.
var byLabel = client.NewIndex(func(pod *corev1.Pod) []string {
	if key, ok := labelledGroup(pod); ok {
		return []string{key.String()}
	}
	return nil
})

// labelledGroup returns the PodGroup that a pod's label names.
func labelledGroup(pod *corev1.Pod) (objects.Key, bool) {
	name := pod.Labels[coschedulingLabel]
	return objects.Key{Namespace: pod.Namespace, Name: name}, name != ""
}

// coscheduling binds the pods of a PodGroup of the API group scheduling.x-k8s.io, to which they belong by a label, once minMember of them have a
// node. Until then they wait in Permit; when one finds no node, those that wait are rejected. It does what the plugin of this name in
// kubernetes-sigs/scheduler-plugins does, and writes the phase of a PodGroup, which has a controller there.
type coscheduling struct {
	cooperative
	handle framework.Handle
	args   CoschedulingArgs

	writes sync.Mutex // orders the writes of a status

	mu        sync.Mutex
	closed    bool
	backoffs  map[objects.Key]clock.Timer // activate the pods of groups in backoff when it ends
	rounds    map[objects.Key]*round
	failed    map[objects.Key]time.Time          // groups whose pods were rejected, and when this was last
	rejected  map[objects.Key]time.Time          // groups in backoff, and when it ends
	permitted map[objects.Key]time.Time          // groups for whose minResources there was room, and until when this is not checked again
	bound     map[objects.Key]map[types.UID]bool // pods that this plugin has seen bound
}

func defaultCoscheduling() CoschedulingArgs {
	return CoschedulingArgs{PermitWaitingTimeSeconds: 60, PodGroupRejectPercentage: 10}
}

func newCoscheduling(args CoschedulingArgs, h framework.Handle) (framework.Plugin, error) {
	switch {
	case args.PermitWaitingTimeSeconds < 0:
		return nil, field.Invalid(field.NewPath("permitWaitingTimeSeconds"), args.PermitWaitingTimeSeconds, "must be greater than 0")
	case args.PodGroupBackoffSeconds < 0:
		return nil, field.Invalid(field.NewPath("podGroupBackoffSeconds"), args.PodGroupBackoffSeconds, "must be greater than 0")
	case args.PodGroupRejectPercentage < 0 || args.PodGroupRejectPercentage > 100:
		return nil, field.Invalid(field.NewPath("podGroupRejectPercentage"), args.PodGroupRejectPercentage, "must be between 0 and 100")
	}
	return &coscheduling{handle: h, args: args, backoffs: map[objects.Key]clock.Timer{}, rounds: map[objects.Key]*round{}, failed: map[objects.Key]time.Time{},
		rejected:  map[objects.Key]time.Time{},
		permitted: map[objects.Key]time.Time{}, bound: map[objects.Key]map[types.UID]bool{}}, nil
}

// Close implements io.Closer.
func (p *coscheduling) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, t := range p.backoffs {
		t.Stop()
	}
	for _, r := range p.rounds {
		r.stop()
	}
	return nil
}

func (*coscheduling) Name() string { return "Coscheduling" }

// EventsToRegister registers for pods that come and go, for PodGroups, and for nodes that may have the minResources of one.
func (p *coscheduling) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Add | framework.Delete}, QueueingHintFn: p.afterChange},
		{Event: framework.ClusterEvent{Resource: coschedulingGroups, ActionType: framework.Add | framework.Update}, QueueingHintFn: p.afterChange},
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add | framework.UpdateNodeAllocatable}, QueueingHintFn: p.afterNode},
	}, nil
}

// afterChange returns QueueSkip for a pod whose attempt would end in PreFilter, or in Permit because its PodGroup does not exist. Which pod or
// PodGroup changed does not matter: a pod of any group may have left room.
func (p *coscheduling) afterChange(_ klog.Logger, pod *corev1.Pod, _, _ any) (framework.QueueingHint, error) {
	key, group := p.groupOf(pod)
	if group == nil || p.notReady(pod, key, group) != "" {
		return framework.QueueSkip, nil
	}
	return framework.Queue, nil
}

// afterNode returns Queue for a pod whose group may have waited for its minResources.
func (p *coscheduling) afterNode(_ klog.Logger, pod *corev1.Pod, _, _ any) (framework.QueueingHint, error) {
	key, group := p.groupOf(pod)
	if group == nil || len(group.Spec.MinResources) == 0 || p.notReady(pod, key, group) != "" {
		return framework.QueueSkip, nil
	}
	return framework.Queue, nil
}

// SignPod signs only pods without a group: whether others are rejected depends on the pods of their group.
func (*coscheduling) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	if _, grouped := labelledGroup(pod); grouped {
		return nil, framework.NewStatus(framework.Unschedulable, "pods of a group are not signed")
	}
	return nil, nil
}

// NodeLocal implements scheduler.NodeLocal.
func (*coscheduling) NodeLocal(*corev1.Pod, framework.SharedLister) bool { return true }

// crdPodGroup is what the plugin reads of a PodGroup.
type crdPodGroup struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		MinMember              int32               `json:"minMember"`
		MinResources           corev1.ResourceList `json:"minResources"`
		ScheduleTimeoutSeconds *int32              `json:"scheduleTimeoutSeconds"`
	} `json:"spec"`
	Status struct {
		Phase     string `json:"phase"`
		Scheduled int32  `json:"scheduled"`
	} `json:"status"`
}

func (p *coscheduling) api() scheduler.APIHandle {
	h, _ := p.handle.(scheduler.APIHandle) // every Handle of this scheduler is one
	return h
}

// clock returns the cluster's clock; in a simulation, which has none, the machine's.
func (p *coscheduling) clock() clock.Clock {
	if c := p.api().Clock(); c != nil {
		return c
	}
	return clock.Real()
}

// groupOf returns the PodGroup of a pod; nil if it names none, or one that does not exist.
func (p *coscheduling) groupOf(pod *corev1.Pod) (objects.Key, *crdPodGroup) {
	key, grouped := labelledGroup(pod)
	if !grouped {
		return key, nil
	}
	obj, ok := p.api().Object(coschedulingGroups, key)
	if !ok {
		return key, nil
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return key, nil
	}
	group := &crdPodGroup{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, group); err != nil {
		return key, nil // the definition's schema allows no such object
	}
	return key, group
}

// PreFilter rejects a pod whose group is in backoff, has fewer pods without scheduling gates than minMember, or whose minResources the cluster does not have.
func (p *coscheduling) PreFilter(_ context.Context, _ framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	key, group := p.groupOf(pod)
	if group == nil {
		return nil, nil
	}
	if reason := p.notReady(pod, key, group); reason != "" {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, reason)
	}
	if len(group.Spec.MinResources) == 0 || p.holds(p.permitted, key) {
		return nil, nil
	}
	if lacks := lacking(nodes, group.Spec.MinResources, int64(group.Spec.MinMember), key); lacks != "" {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, "resource gap: "+lacks)
	}
	p.hold(p.permitted, key, p.timeout(group))
	return nil, nil
}

// PreFilterExtensions implements framework.PreFilterPlugin.
func (*coscheduling) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// holds reports whether a time of a group has not passed. hold sets it.
func (p *coscheduling) holds(times map[objects.Key]time.Time, key objects.Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := times[key]
	if ok && !p.clock().Now().Before(until) {
		delete(times, key)
		ok = false
	}
	return ok
}

func (p *coscheduling) hold(times map[objects.Key]time.Time, key objects.Key, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	times[key] = p.clock().Now().Add(d)
}

// timeout returns how long a pod of a group waits in Permit.
func (p *coscheduling) timeout(group *crdPodGroup) time.Duration {
	if s := group.Spec.ScheduleTimeoutSeconds; s != nil && *s > 0 {
		return time.Duration(*s) * time.Second
	}
	return time.Duration(p.args.PermitWaitingTimeSeconds) * time.Second
}

// assigned returns the number of pods of a group that are on a node, without one pod.
func (p *coscheduling) assigned(key objects.Key, without types.UID) (int, error) {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return 0, err
	}
	n := 0
	for _, node := range nodes {
		for _, other := range node.GetPods() {
			if of, ok := labelledGroup(other.GetPod()); ok && of == key && other.GetPod().UID != without {
				n++
			}
		}
	}
	return n, nil
}

// PostFilter rejects the pods of a group that wait, when another of its pods finds no node and more than podGroupRejectPercentage of minMember is missing.
func (p *coscheduling) PostFilter(_ context.Context, _ framework.CycleState, pod *corev1.Pod, _ framework.NodeToStatusReader) (*framework.PostFilterResult, *framework.Status) {
	key, group := p.groupOf(pod)
	if group == nil {
		return &framework.PostFilterResult{}, framework.NewStatus(framework.Unschedulable, "can not find pod group")
	}
	assigned, err := p.assigned(key, pod.UID)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	missing := int(group.Spec.MinMember) - assigned
	if missing <= 0 || int64(missing)*100 <= int64(p.args.PodGroupRejectPercentage)*int64(group.Spec.MinMember) {
		return &framework.PostFilterResult{}, framework.NewStatus(framework.Unschedulable)
	}
	p.rejectWaiting(key, "optimistic rejection in PostFilter: pod "+pod.Namespace+"/"+pod.Name+" finds no node")
	if p.args.PodGroupBackoffSeconds > 0 {
		if n, _, known := p.siblings(key); !known || n >= int(group.Spec.MinMember) {
			p.backOff(key)
		}
	}
	p.groupFailed(key)
	return &framework.PostFilterResult{}, framework.NewStatus(framework.Unschedulable,
		fmt.Sprintf("PodGroup %v gets rejected due to Pod %v is unschedulable even after PostFilter", key, pod.Name))
}

// backOff begins the backoff of a group, unless it is in one. When it ends, the pods are activated, since no event requeues them.
func (p *coscheduling) backOff(key objects.Key) {
	if p.holds(p.rejected, key) {
		return
	}
	d := time.Duration(p.args.PodGroupBackoffSeconds) * time.Second
	p.hold(p.rejected, key, d)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.backoffs[key] = p.clock().AfterFunc(d, func() { p.backoffEnded(key) })
	}
}

func (p *coscheduling) backoffEnded(key objects.Key) {
	p.mu.Lock()
	delete(p.backoffs, key)
	closed := p.closed
	p.mu.Unlock()
	if !closed {
		p.activate(key, "")
	}
}

// groupFailed records that pods of a group were rejected.
func (p *coscheduling) groupFailed(key objects.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.permitted, key)
	for other := range p.failed {
		if _, exists := p.api().Object(coschedulingGroups, other); !exists {
			delete(p.failed, other)
		}
	}
	for other, r := range p.rounds {
		if _, exists := p.api().Object(coschedulingGroups, other); !exists {
			r.stop()
			delete(p.rounds, other)
		}
	}
	p.failed[key] = p.clock().Now()
}

// eachWaiting calls f for each pod of a group that waits in Permit.
func (p *coscheduling) eachWaiting(key objects.Key, f func(framework.WaitingPod)) {
	p.handle.IterateOverWaitingPods(func(w framework.WaitingPod) {
		if of, ok := labelledGroup(w.GetPod()); ok && of == key {
			f(w)
		}
	})
}

func (p *coscheduling) rejectWaiting(key objects.Key, message string) {
	p.eachWaiting(key, func(w framework.WaitingPod) { w.Reject(p.Name(), message) })
}

// Permit lets a pod wait until minMember pods of its group have a node, and then allows all of them. The first of a group that waits activates
// the others.
func (p *coscheduling) Permit(_ context.Context, _ framework.CycleState, pod *corev1.Pod, _ string) (*framework.Status, time.Duration) {
	key, grouped := labelledGroup(pod)
	if !grouped {
		return nil, 0
	}
	_, group := p.groupOf(pod)
	if group == nil {
		return framework.NewStatus(framework.Unschedulable, "PodGroup not found"), 0
	}
	assigned, err := p.assigned(key, pod.UID)
	if err != nil {
		return framework.AsStatus(err), 0
	}
	if assigned+1 < int(group.Spec.MinMember) {
		if assigned == 0 {
			if !p.leads(key, pod.UID) {
				return framework.NewStatus(framework.Unschedulable, failedRecently(key)), 0
			}
			p.activate(key, pod.UID)
		}
		return framework.NewStatus(framework.Wait), p.timeout(group)
	}
	p.succeeded(key)
	p.eachWaiting(key, func(w framework.WaitingPod) { w.Allow(p.Name()) })
	return nil, 0
}

// activate activates the pods of a group that have no node, without one pod.
func (p *coscheduling) activate(key objects.Key, without types.UID) {
	caches := p.api().Caches()
	if caches == nil {
		return
	}
	others := map[string]*corev1.Pod{}
	for _, other := range caches.Pods().ByIndex(byLabel, key.String()) {
		if other.UID != without && other.Spec.NodeName == "" {
			others[other.Namespace+"/"+other.Name] = other
		}
	}
	p.handle.Activate(klog.Logger{}, others)
}

// Reserve implements framework.ReservePlugin.
func (*coscheduling) Reserve(context.Context, framework.CycleState, *corev1.Pod, string) *framework.Status {
	return nil
}

// Unreserve rejects the other pods of the group that wait.
func (p *coscheduling) Unreserve(_ context.Context, _ framework.CycleState, pod *corev1.Pod, _ string) {
	key, group := p.groupOf(pod)
	if group == nil {
		return
	}
	p.rejectWaiting(key, "rejection in Unreserve")
	p.groupFailed(key)
}
