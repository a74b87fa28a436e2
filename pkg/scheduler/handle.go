package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
)

// handle is what a profile's plugins know of the scheduler. It is the whole framework.Handle; where this scheduler has
// nothing (extenders, devices, CSI, nominations) it answers "none".
type handle struct {
	Namespaces
	profile  *profile
	client   client.Client
	cluster  *snapshot
	waiting  *waitingPods
	bridge   *bridge
	recorder events.EventRecorderLogger
	activate func(map[string]*corev1.Pod)
	workers  int
}

var _ framework.Handle = (*handle)(nil)

// SnapshotSharedLister and the methods below are framework.Handle's.
func (h *handle) SnapshotSharedLister() framework.SharedLister { return h.cluster }
func (h *handle) ProfileName() string                          { return h.profile.name }
func (h *handle) EventRecorder() events.EventRecorderLogger    { return h.recorder }
func (h *handle) Parallelizer() framework.Parallelizer         { return parallelizer(h.workers) }

func (h *handle) ClientSet() kubernetes.Interface { return h.bridge.clientset() }
func (h *handle) KubeConfig() *rest.Config        { return h.bridge.config() }
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

func (h *handle) SharedDRAManager() framework.SharedDRAManager { return noDevices{} }
func (h *handle) SharedCSIManager() framework.CSIManager       { return noCSI{} }
func (h *handle) PodGroupManager() framework.PodGroupManager   { return noPodGroups{} }
func (h *handle) Extenders() []framework.Extender              { return nil }
func (h *handle) APIDispatcher() framework.APIDispatcher       { return nil }
func (h *handle) APICacher() framework.APICacher               { return nil }

func (h *handle) AddNominatedPod(klog.Logger, framework.PodInfo, *framework.NominatingInfo) {}
func (h *handle) DeleteNominatedPodIfExists(*corev1.Pod)                                    {}
func (h *handle) UpdateNominatedPod(klog.Logger, *corev1.Pod, framework.PodInfo)            {}
func (h *handle) NominatedPodsForNode(string) []framework.PodInfo                           { return nil }

func (h *handle) Activate(_ klog.Logger, pods map[string]*corev1.Pod) { h.activate(pods) }

func (h *handle) SignPod(ctx context.Context, pod *corev1.Pod) framework.PodSignature {
	return framework.PodSignature(h.profile.sign(ctx, pod))
}

func (h *handle) RunFilterPluginsWithNominatedPods(ctx context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	return runFilter(ctx, h.profile.filtersFor(state), state, pod, node)
}

func (h *handle) RunFilterPlugins(ctx context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	return runFilter(ctx, h.profile.filtersFor(state), state, pod, node)
}

func (h *handle) RunPreScorePlugins(ctx context.Context, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) *framework.Status {
	return h.profile.runPreScore(ctx, state, pod, nodes)
}

func (h *handle) RunScorePlugins(ctx context.Context, state framework.CycleState, pod *corev1.Pod, nodes []framework.NodeInfo) ([]framework.NodePluginScores, *framework.Status) {
	return h.profile.runScore(ctx, state, pod, nodes)
}

func (h *handle) RunPreFilterExtensionAddPod(ctx context.Context, state framework.CycleState, pod *corev1.Pod, added framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return h.profile.runExtensions(state, func(e framework.PreFilterExtensions) *framework.Status {
		return e.AddPod(ctx, state, pod, added, node)
	})
}

func (h *handle) RunPreFilterExtensionRemovePod(ctx context.Context, state framework.CycleState, pod *corev1.Pod, removed framework.PodInfo, node framework.NodeInfo) *framework.Status {
	return h.profile.runExtensions(state, func(e framework.PreFilterExtensions) *framework.Status {
		return e.RemovePod(ctx, state, pod, removed, node)
	})
}

// parallelizer runs pieces of work on that many goroutines.
type parallelizer int

func (p parallelizer) Until(ctx context.Context, pieces int, do workqueue.DoWorkPieceFunc, _ string) {
	workqueue.ParallelizeUntil(ctx, int(p), pieces, do)
}
