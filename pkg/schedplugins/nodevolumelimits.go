package schedplugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// nodeVolumeLimits keeps pods off nodes to which a CSI driver attaches as many volumes as their CSINode allows. It reads claims and volumes
// from the API, and only for pods that have claims of a driver with limits. Volumes of the cloud providers' removed drivers, which
// Kubernetes counts as those of their CSI drivers, are not counted.
type nodeVolumeLimits struct {
	cooperative
	local
	handle framework.Handle
}

func newNodeVolumeLimits(h framework.Handle) framework.Plugin { return nodeVolumeLimits{handle: h} }

func (nodeVolumeLimits) Name() string { return "NodeVolumeLimits" }

const nodeVolumeLimitsState framework.StateKey = "NodeVolumeLimits"

// csiVolume identifies a volume of a CSI driver.
type csiVolume struct{ driver, handle string }

// csiVolumes is what one scheduling cycle knows of the volumes of a pod and of the nodes.
type csiVolumes struct {
	pod      map[csiVolume]struct{}                 // of the pod
	limits   map[string]map[string]int32            // by node and driver
	attached map[string][]csiVolume                 // by node, from VolumeAttachments
	claims   map[types.NamespacedName]csiVolume     // of all claims that have, or will have, a volume of a CSI driver
	owners   map[types.NamespacedName]metav1.Object // the claims
}

// Clone implements framework.StateData.
func (s *csiVolumes) Clone() framework.StateData { return s }

// PreFilter skips Filter for pods without volumes that a limit counts. It leaves a missing claim to VolumeBinding, which rejects the pod.
func (l nodeVolumeLimits) PreFilter(ctx context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	skip := framework.NewStatus(framework.Skip)
	if names, _ := claimNames(pod); len(names) == 0 || simulated(l.handle) {
		return nil, skip
	}
	nodes, err := l.handle.ClientSet().StorageV1().CSINodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	s := &csiVolumes{limits: limitsOf(nodes.Items)}
	if len(s.limits) == 0 {
		return nil, skip
	}
	if err := s.read(ctx, l.handle); err != nil {
		return nil, framework.AsStatus(err)
	}
	if s.pod = s.of(pod); len(s.pod) == 0 {
		return nil, skip
	}
	state.Write(nodeVolumeLimitsState, s)
	return nil, nil
}

func (nodeVolumeLimits) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// limitsOf returns the limits that nodes have, by node and driver.
func limitsOf(nodes []storagev1.CSINode) map[string]map[string]int32 {
	limits := map[string]map[string]int32{}
	for _, n := range nodes {
		for _, d := range n.Spec.Drivers {
			if d.Allocatable == nil || d.Allocatable.Count == nil {
				continue
			}
			if limits[n.Name] == nil {
				limits[n.Name] = map[string]int32{}
			}
			limits[n.Name][d.Name] = *d.Allocatable.Count
		}
	}
	return limits
}

// read reads the cluster's claims, volumes and attachments.
func (s *csiVolumes) read(ctx context.Context, h framework.Handle) error {
	all := metav1.ListOptions{}
	volumes, err := h.ClientSet().CoreV1().PersistentVolumes().List(ctx, all)
	if err != nil {
		return err
	}
	sources := map[string]*corev1.CSIPersistentVolumeSource{} // nil: of no CSI driver
	for _, v := range volumes.Items {
		sources[v.Name] = v.Spec.CSI
	}
	classes, err := h.ClientSet().StorageV1().StorageClasses().List(ctx, all)
	if err != nil {
		return err
	}
	provisioners := map[string]string{}
	for _, c := range classes.Items {
		provisioners[c.Name] = c.Provisioner
	}
	claims, err := h.ClientSet().CoreV1().PersistentVolumeClaims(metav1.NamespaceAll).List(ctx, all)
	if err != nil {
		return err
	}
	s.claims, s.owners = map[types.NamespacedName]csiVolume{}, map[types.NamespacedName]metav1.Object{}
	for i := range claims.Items {
		c := &claims.Items[i]
		key := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
		source, exists := sources[c.Spec.VolumeName]
		v := csiVolume{driver: provisioners[volume.GetPersistentVolumeClaimClass(c)], handle: "claim " + key.String()}
		if exists {
			if source == nil {
				continue
			}
			v = csiVolume{source.Driver, source.VolumeHandle}
		}
		if v.driver != "" && v.handle != "" {
			s.claims[key], s.owners[key] = v, c
		}
	}
	attachments, err := h.ClientSet().StorageV1().VolumeAttachments().List(ctx, all)
	if err != nil {
		return err
	}
	s.attached = map[string][]csiVolume{}
	for _, a := range attachments.Items {
		name := a.Spec.Source.PersistentVolumeName
		if name != nil && a.Spec.Attacher != "" && sources[*name] != nil {
			s.attached[a.Spec.NodeName] = append(s.attached[a.Spec.NodeName], csiVolume{a.Spec.Attacher, sources[*name].VolumeHandle})
		}
	}
	return nil
}

// of returns the volumes of a pod's claims. A claim of the name of an ephemeral volume's that belongs to another does not count.
func (s *csiVolumes) of(pod *corev1.Pod) map[csiVolume]struct{} {
	found := map[csiVolume]struct{}{}
	names, owned := claimNames(pod)
	for _, name := range names {
		key := types.NamespacedName{Namespace: pod.Namespace, Name: name}
		v, ok := s.claims[key]
		if ok && (!owned[name] || metav1.IsControlledBy(s.owners[key], pod)) {
			found[v] = struct{}{}
		}
	}
	return found
}

func (nodeVolumeLimits) Filter(_ context.Context, state framework.CycleState, _ *corev1.Pod, info framework.NodeInfo) *framework.Status {
	data, err := state.Read(nodeVolumeLimitsState)
	if err != nil {
		return framework.AsStatus(err)
	}
	s := data.(*csiVolumes)
	limits := s.limits[info.Node().Name]
	if len(limits) == 0 {
		return nil
	}
	used := map[csiVolume]struct{}{}
	for _, other := range info.GetPods() {
		for v := range s.of(other.GetPod()) {
			used[v] = struct{}{}
		}
	}
	added := map[string]int{}
	for v := range s.pod {
		if _, shared := used[v]; !shared {
			added[v.driver]++
		}
	}
	for _, v := range s.attached[info.Node().Name] {
		used[v] = struct{}{}
	}
	count := map[string]int{}
	for v := range used {
		count[v.driver]++
	}
	for driver, n := range added {
		if limit, ok := limits[driver]; ok && count[driver]+n > int(limit) {
			return framework.NewStatus(framework.Unschedulable, "node(s) exceed max volume count")
		}
	}
	return nil
}

// SignPod signs only pods without claims, since a claim may change.
func (nodeVolumeLimits) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	return signUnclaimed(pod)
}

func (nodeVolumeLimits) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	afterNode := func(_ klog.Logger, _ *corev1.Pod, old, changed any) (framework.QueueingHint, error) {
		before, ok := old.(*storagev1.CSINode)
		now, okNow := changed.(*storagev1.CSINode)
		return queueIf(!ok || !okNow || raised(before, now)), nil
	}
	afterPod := func(_ klog.Logger, _ *corev1.Pod, old, _ any) (framework.QueueingHint, error) {
		removed := podOf(old)
		if removed == nil {
			return framework.Queue, nil
		}
		names, _ := claimNames(removed)
		return queueIf(len(names) > 0 && (removed.Spec.NodeName != "" || removed.Status.NominatedNodeName != "")), nil
	}
	afterAttachment := func(_ klog.Logger, pod *corev1.Pod, _, _ any) (framework.QueueingHint, error) {
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				return framework.Queue, nil
			}
		}
		return framework.QueueSkip, nil
	}
	return []framework.ClusterEventWithHint{
		on(framework.CSINode, framework.Add, nil),
		on(framework.CSINode, framework.Update, afterNode),
		on(framework.Pod, framework.Delete, afterPod),
		on(framework.PersistentVolumeClaim, framework.Add, afterClaim),
		on(framework.VolumeAttachment, framework.Delete, afterAttachment),
	}, nil
}

// raised reports whether a limit of a node is higher than before. No limit counts as 0.
func raised(before, now *storagev1.CSINode) bool {
	old := limitsOf([]storagev1.CSINode{*before})[before.Name]
	for driver, limit := range limitsOf([]storagev1.CSINode{*now})[now.Name] {
		if limit > old[driver] {
			return true
		}
	}
	return false
}
