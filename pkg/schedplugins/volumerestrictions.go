package schedplugins

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// volumeRestrictions keeps pods off nodes where another pod uses a disk that only one may use, and from using a claim of access mode
// ReadWriteOncePod that another pod uses. It reads claims from the API, and only for pods that have claims.
type volumeRestrictions struct {
	cooperative
	local
	handle framework.Handle
}

func newVolumeRestrictions(h framework.Handle) framework.Plugin { return volumeRestrictions{handle: h} }

func (volumeRestrictions) Name() string { return "VolumeRestrictions" }

const (
	volumeRestrictionsState framework.StateKey = "VolumeRestrictions"

	diskConflict  = "node(s) had no available disk"
	claimConflict = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)

// exclusiveClaims are the claims of a pod that no other pod may use, and how many uses by others there are in the cluster.
type exclusiveClaims struct {
	names []string
	uses  int
}

// Clone implements framework.StateData.
func (s *exclusiveClaims) Clone() framework.StateData {
	c := *s
	return &c
}

func (r volumeRestrictions) PreFilter(ctx context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	s := &exclusiveClaims{}
	storage := r.handle.SnapshotSharedLister().StorageInfos()
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		claim, err := claimOf(ctx, r.handle, pod.Namespace, v.PersistentVolumeClaim.ClaimName)
		if err != nil {
			return nil, notFound(err)
		}
		if !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) || slices.Contains(s.names, claim.Name) {
			continue
		}
		s.names = append(s.names, claim.Name)
		if storage.IsPVCUsedByPods(claimKey(claim)) {
			s.uses++
		}
	}
	if s.uses == 0 && len(exclusiveDisks(pod)) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(volumeRestrictionsState, s)
	return nil, nil
}

// PreFilterExtensions returns the plugin: preemption evaluates the pod without others.
func (r volumeRestrictions) PreFilterExtensions() framework.PreFilterExtensions { return r }

func (volumeRestrictions) AddPod(_ context.Context, state framework.CycleState, pod *corev1.Pod, other framework.PodInfo, _ framework.NodeInfo) *framework.Status {
	return countUses(state, pod, other.GetPod(), 1)
}

func (volumeRestrictions) RemovePod(_ context.Context, state framework.CycleState, pod *corev1.Pod, other framework.PodInfo, _ framework.NodeInfo) *framework.Status {
	return countUses(state, pod, other.GetPod(), -1)
}

func countUses(state framework.CycleState, pod, other *corev1.Pod, sign int) *framework.Status {
	data, err := state.Read(volumeRestrictionsState)
	if err != nil {
		return framework.AsStatus(err)
	}
	data.(*exclusiveClaims).uses += sign * usesOf(other, pod.Namespace, data.(*exclusiveClaims).names)
	return nil
}

// usesOf returns how many of the claims a pod uses.
func usesOf(pod *corev1.Pod, namespace string, claims []string) (n int) {
	if pod.Namespace != namespace {
		return 0
	}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && slices.Contains(claims, v.PersistentVolumeClaim.ClaimName) {
			n++
		}
	}
	return n
}

func (volumeRestrictions) Filter(_ context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	for _, v := range exclusiveDisks(pod) {
		for _, other := range node.GetPods() {
			if disksConflict(v, other.GetPod()) {
				return framework.NewStatus(framework.Unschedulable, diskConflict)
			}
		}
	}
	data, err := state.Read(volumeRestrictionsState)
	if err != nil {
		return framework.AsStatus(err)
	}
	if data.(*exclusiveClaims).uses > 0 {
		return framework.NewStatus(framework.Unschedulable, claimConflict)
	}
	return nil
}

// exclusiveDisks returns the volumes of a pod that name a disk in the pod's spec.
func exclusiveDisks(pod *corev1.Pod) (disks []corev1.Volume) {
	for _, v := range pod.Spec.Volumes {
		if v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil {
			disks = append(disks, v)
		}
	}
	return disks
}

// disksConflict reports whether a pod uses the disk of a volume, so that both can't be on one node. Disks other than those of AWS may be shared
// by pods that only read.
func disksConflict(v corev1.Volume, pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(o corev1.Volume) bool {
		switch {
		case v.GCEPersistentDisk != nil && o.GCEPersistentDisk != nil:
			return v.GCEPersistentDisk.PDName == o.GCEPersistentDisk.PDName && !(v.GCEPersistentDisk.ReadOnly && o.GCEPersistentDisk.ReadOnly)
		case v.AWSElasticBlockStore != nil && o.AWSElasticBlockStore != nil:
			return v.AWSElasticBlockStore.VolumeID == o.AWSElasticBlockStore.VolumeID
		case v.ISCSI != nil && o.ISCSI != nil:
			return v.ISCSI.IQN == o.ISCSI.IQN && !(v.ISCSI.ReadOnly && o.ISCSI.ReadOnly)
		case v.RBD != nil && o.RBD != nil:
			monitor := func(m string) bool { return slices.Contains(o.RBD.CephMonitors, m) }
			return slices.ContainsFunc(v.RBD.CephMonitors, monitor) && v.RBD.RBDPool == o.RBD.RBDPool && v.RBD.RBDImage == o.RBD.RBDImage &&
				!(v.RBD.ReadOnly && o.RBD.ReadOnly)
		}
		return false
	})
}

// SignPod signs the pod's disks.
func (volumeRestrictions) SignPod(_ context.Context, pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	if names, _ := claimNames(pod); len(names) > 0 {
		return signUnclaimed(pod)
	}
	return signature("minikctl.dev/disks", exclusiveDisks(pod))
}

func (volumeRestrictions) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	freed := func(_ klog.Logger, pod *corev1.Pod, old, _ any) (framework.QueueingHint, error) {
		gone := podOf(old)
		if gone == nil {
			return framework.QueueSkip, nil
		}
		names, _ := claimNames(pod)
		disk := slices.ContainsFunc(exclusiveDisks(pod), func(v corev1.Volume) bool { return disksConflict(v, gone) })
		return queueIf(disk || usesOf(gone, pod.Namespace, names) > 0), nil
	}
	return []framework.ClusterEventWithHint{
		on(framework.Pod, framework.Delete, freed),
		on(framework.Node, framework.Add, nil),
		on(framework.PersistentVolumeClaim, framework.Add|framework.Update, afterClaim),
	}, nil
}
