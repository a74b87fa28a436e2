package scheduler

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/trace"
)

// handle is the framework.Handle of one plugin. It has no CSI nodes: their methods return empty results.
type handle struct {
	Namespaces
	profile  *profile
	plugin   string         // the name under which the profile has the plugin
	args     runtime.Object // the arguments with their defaults, as RecordArgs got them
	client   client.Client
	binder   *binder
	caches   *client.Caches
	selects  *client.Caches // of Selectors
	clock    clock.Clock
	budgets  func() []*policyv1.PodDisruptionBudget
	objects  *watchedObjects
	groups   *podGroups
	devices  *devices
	spawn    func(func(context.Context))
	cluster  atomic.Pointer[snapshot] // the loop's snapshot; after an abandoned call the old one, until that call returns
	waiting  *waitingPods
	bridge   *bridge
	recorder events.EventRecorderLogger
	activate func(map[string]*corev1.Pod)
	workers  int
}

// APIHandle is implemented by every Handle of this scheduler, in addition to framework.Handle. It lets a plugin wait so that a manual clock
// can move on meanwhile: by the cluster's clock, and for changes of objects, by a watch whose context is that of the plugin's call.
type APIHandle interface {
	Client() client.Client                    // nil in a simulation
	Simulated() (_ SimulatedObjects, ok bool) // false: the plugin schedules for a cluster
	Caches() *client.Caches                   // of the scheduler; nil in a simulation. Those that a factory takes are synced when its plugin is called
	Clock() clock.Clock                       // the cluster's
	Budgets() []*policyv1.PodDisruptionBudget // all of the cluster; shared, must not be changed
	Selectors() *Selectors                    // of the cluster; for factories, as Caches
	// Object returns an object of a resource for whose events the plugin registered, from the scheduler's cache. The object is shared and must
	// not be changed. Its events are delivered after the cache has the change.
	Object(of framework.EventResource, key objects.Key) (objects.Object, bool)
	// Preempt runs evict, which evicts the victims of a pod, beside the scheduling loop, after the current cycle. Its context ends with the
	// scheduler, and names the pod as the cause of what evict writes. In a simulation evict does not run.
	Preempt(preemptor *corev1.Pod, evict func(ctx context.Context) error)
}

// ArgsHandle is implemented by every Handle of this scheduler while a factory creates a plugin.
type ArgsHandle interface {
	// PluginName returns the name under which the configuration has the plugin: NAME, or NAME/INSTANCE.
	PluginName() string
	// RecordArgs records the plugin's arguments with their defaults, for "minikctl scheduler config". They must not be changed any more.
	RecordArgs(args runtime.Object)
	// WatchFile makes the scheduler load its configuration again when the file changes. It is called before the file is read.
	WatchFile(path string)
}

// FeatureHandle is implemented by every Handle of this scheduler.
type FeatureHandle interface {
	Features() feature.Gates // of the cluster
}

// LocalHandle is implemented by every Handle of this scheduler.
type LocalHandle interface {
	// FiltersLocally reports whether the results of the Filter plugins for a pod with this state, which is in its PostFilter, depend only on its
	// signature and priority, on the node with its pods and nominated pods, and on properties of the cluster that change only with a Node object.
	// A plugin may then keep in the state what it found on a node: the scheduler uses the state for all pods of the same signature and priority,
	// until a Node object changes.
	FiltersLocally(state framework.CycleState) bool
}

var (
	_ framework.Handle = (*handle)(nil)
	_ LocalHandle      = (*handle)(nil)
	_ FeatureHandle    = (*handle)(nil)
	_ APIHandle        = (*handle)(nil)
	_ ArgsHandle       = (*handle)(nil)
)

// Features implements FeatureHandle.
func (h *handle) Features() feature.Gates { return h.profile.setup.features }

// FiltersLocally implements LocalHandle.
func (h *handle) FiltersLocally(state framework.CycleState) bool {
	return h.profile.filtersLocally(state)
}

// PluginName and the two methods below implement ArgsHandle.
func (h *handle) PluginName() string             { return h.plugin }
func (h *handle) RecordArgs(args runtime.Object) { h.args = args }
func (h *handle) WatchFile(path string) {
	h.profile.setup.watched.add(versionOf(path))
}

// Client and the methods below implement APIHandle.
func (h *handle) Client() client.Client { return h.client }
func (h *handle) Simulated() (SimulatedObjects, bool) {
	return SimulatedObjects{h.objects}, h.client == nil
}
func (h *handle) Caches() *client.Caches                   { return h.caches }
func (h *handle) Clock() clock.Clock                       { return h.clock }
func (h *handle) Budgets() []*policyv1.PodDisruptionBudget { return h.budgets() }
func (h *handle) Selectors() *Selectors                    { return newSelectors(h.selects) }
func (h *handle) Object(of framework.EventResource, key objects.Key) (objects.Object, bool) {
	return h.objects.get(of, key)
}
func (h *handle) Preempt(preemptor *corev1.Pod, evict func(ctx context.Context) error) {
	h.spawn(func(ctx context.Context) {
		began := wallClock.Now()
		err := evict(trace.With(ctx, objects.RevisionOf(preemptor)))
		h.profile.setup.metrics.evicted(err, wallClock.Since(began))
	})
}

// SnapshotSharedLister and the methods below implement framework.Handle.
func (h *handle) SnapshotSharedLister() framework.SharedLister { return h.cluster.Load() }
func (h *handle) ProfileName() string                          { return h.profile.name }
func (h *handle) EventRecorder() events.EventRecorderLogger    { return h.recorder }
func (h *handle) Parallelizer() framework.Parallelizer {
	return parallelizer{h.workers, h.profile.setup.metrics.goroutines}
}

func (h *handle) ClientSet() kubernetes.Interface { return h.bridge.ClientSet() }
func (h *handle) KubeConfig() *rest.Config        { return h.bridge.Config() }
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory {
	return h.bridge.informers()
}

func (h *handle) IterateOverWaitingPods(f func(framework.WaitingPod)) { h.waiting.each(f) }
func (h *handle) GetWaitingPod(uid types.UID) framework.WaitingPod {
	if p := h.waiting.get(uid); p != nil {
		return p
	}
	return nil
}
func (h *handle) RejectWaitingPod(uid types.UID) bool {
	p := h.waiting.get(uid)
	return p != nil && p.Reject("", "removed")
}
func (h *handle) AddPodInPreBind(uid types.UID, cancel context.CancelCauseFunc) {
	h.waiting.addPreBind(uid, cancel)
}
func (h *handle) GetPodInPreBind(uid types.UID) framework.PodInPreBind {
	if p := h.waiting.preBinding(uid); p != nil {
		return p
	}
	return nil
}
func (h *handle) RemovePodInPreBind(uid types.UID) { h.waiting.removePreBind(uid) }

func (h *handle) SharedCSIManager() framework.CSIManager     { return noCSI{} }
func (h *handle) PodGroupManager() framework.PodGroupManager { return h.groups }
func (h *handle) APIDispatcher() framework.APIDispatcher     { return nil }
func (h *handle) APICacher() framework.APICacher             { return nil }
func (h *handle) SharedDRAManager() framework.SharedDRAManager {
	return h.devices.forPlugins()
}

func (h *handle) AddNominatedPod(_ klog.Logger, pod framework.PodInfo, info *framework.NominatingInfo) {
	h.profile.nominator.add(pod, info)
}
func (h *handle) DeleteNominatedPodIfExists(pod *corev1.Pod) { h.profile.nominator.remove(pod.UID) }
func (h *handle) UpdateNominatedPod(_ klog.Logger, old *corev1.Pod, pod framework.PodInfo) {
	h.profile.nominator.update(old, pod)
}
func (h *handle) NominatedPodsForNode(node string) []framework.PodInfo {
	return h.profile.nominator.forNode(node)
}

func (h *handle) Activate(_ klog.Logger, pods map[string]*corev1.Pod) { h.activate(pods) }

func (h *handle) SignPod(ctx context.Context, pod *corev1.Pod) (signature framework.PodSignature) {
	if err := new(tracker).inline(ctx, func(ctx context.Context, t *tracker) {
		signature = framework.PodSignature(h.profile.sign(ctx, t, pod))
	}); err != nil {
		return nil
	}
	return signature
}

// runNested runs plugins that another plugin calls through its Handle.
func runNested(ctx context.Context, f func(*tracker) *framework.Status) (status *framework.Status) {
	if err := new(tracker).inline(ctx, func(_ context.Context, t *tracker) { status = f(t) }); err != nil {
		return err.status()
	}
	return status
}

func (h *handle) RunFilterPluginsWithNominatedPods(ctx context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	return runNested(ctx, func(t *tracker) *framework.Status {
		return h.profile.runFilterWithNominated(ctx, t, h.profile.filtersFor(state), state, pod, node)
	})
}

func (h *handle) RunFilterPlugins(ctx context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	return runNested(ctx, func(t *tracker) *framework.Status {
		return runFilter(ctx, t, h.profile.filtersFor(state), state, pod, node)
	})
}

func (h *handle) RunPreScorePlugins(ctx context.Context, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) *framework.Status {
	return runNested(ctx, func(t *tracker) *framework.Status { return h.profile.runPreScore(ctx, t, state, pod, nodes) })
}

func (h *handle) RunScorePlugins(ctx context.Context, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) (scores []framework.NodePluginScores, status *framework.Status) {
	status = runNested(ctx, func(t *tracker) *framework.Status {
		var failed *framework.Status
		scores, failed = h.profile.runScore(ctx, t, state, pod, nodes)
		return failed
	})
	return scores, status
}

func (h *handle) RunPreFilterExtensionAddPod(ctx context.Context, state framework.CycleState, pod *corev1.Pod, added framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return h.runExtensions(ctx, state, func(e framework.PreFilterExtensions) *framework.Status {
		return e.AddPod(ctx, state, pod, added, node)
	})
}

func (h *handle) RunPreFilterExtensionRemovePod(ctx context.Context, state framework.CycleState, pod *corev1.Pod, removed framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return h.runExtensions(ctx, state, func(e framework.PreFilterExtensions) *framework.Status {
		return e.RemovePod(ctx, state, pod, removed, node)
	})
}

func (h *handle) runExtensions(ctx context.Context, state framework.CycleState, f func(framework.PreFilterExtensions) *framework.Status) *framework.Status {
	return runNested(ctx, func(t *tracker) *framework.Status { return h.profile.runExtensions(t, state, f) })
}
