package schedplugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// nodeVolumeLimits keeps pods off nodes to which a CSI driver attaches as many volumes as their CSINode allows. Volumes of the cloud
// providers' removed drivers, which Kubernetes counts as those of their CSI drivers, are not counted.
type nodeVolumeLimits struct {
	cooperative
	local
	storage *storageObjects
}

func newNodeVolumeLimits(h framework.Handle) framework.Plugin {
	return nodeVolumeLimits{storage: newStorageObjects(h)}
}

func (nodeVolumeLimits) Name() string { return "NodeVolumeLimits" }

// storageObjects finds the objects by which the volumes of pods are known.
type storageObjects struct {
	nodes       finder[*storagev1.CSINode]
	classes     finder[*storagev1.StorageClass]
	claims      finder[*corev1.PersistentVolumeClaim]
	volumes     finder[*corev1.PersistentVolume]
	attachments func(node string) []*storagev1.VolumeAttachment
}

// finder finds the objects of a resource.
type finder[T objects.Object] interface {
	Get(key objects.Key) (T, bool)
}

var attachmentsByNode = client.NewIndex(func(a *storagev1.VolumeAttachment) []string { return []string{a.Spec.NodeName} })

// newStorageObjects returns the objects of the API, or of the simulation that the plugin runs in.
func newStorageObjects(h framework.Handle) *storageObjects {
	if all, ok := simulation(h); ok {
		return simulatedStorage(all)
	}
	c := h.(scheduler.APIHandle).Caches()
	attachments := client.CacheOf[*storagev1.VolumeAttachment](c, storagev1.SchemeGroupVersion.WithResource("volumeattachments"))
	return &storageObjects{
		nodes:       client.CacheOf[*storagev1.CSINode](c, storagev1.SchemeGroupVersion.WithResource("csinodes")),
		classes:     client.CacheOf[*storagev1.StorageClass](c, storagev1.SchemeGroupVersion.WithResource("storageclasses")),
		claims:      client.CacheOf[*corev1.PersistentVolumeClaim](c, client.PersistentVolumeClaims),
		volumes:     client.CacheOf[*corev1.PersistentVolume](c, corev1.SchemeGroupVersion.WithResource("persistentvolumes")),
		attachments: func(node string) []*storagev1.VolumeAttachment { return attachments.ByIndex(attachmentsByNode, node) },
	}
}

// csiVolume identifies a volume of a CSI driver.
type csiVolume struct{ driver, handle string }

// csiVolumes are volumes of CSI drivers.
type csiVolumes map[csiVolume]struct{}

// Clone implements framework.StateData. Filter only reads them.
func (v csiVolumes) Clone() framework.StateData { return v }

// addOf adds the volumes of a pod's claims. A missing claim does not count, nor does one with the name of an ephemeral volume's that belongs to
// another owner: VolumeBinding rejects a pod with such a claim.
func (v csiVolumes) addOf(pod *corev1.Pod, s *storageObjects) {
	names, owned := claimNames(pod)
	for _, name := range names {
		claim, ok := s.claims.Get(objects.Key{Namespace: pod.Namespace, Name: name})
		if !ok || owned[name] && !metav1.IsControlledBy(claim, pod) {
			continue
		}
		if found := s.volumeOf(claim); found.driver != "" && found.handle != "" {
			v[found] = struct{}{}
		}
	}
}

// volumeOf returns the volume of a claim, or the one that the driver of its class will make. It is the zero value for one of no CSI driver.
func (s *storageObjects) volumeOf(claim *corev1.PersistentVolumeClaim) csiVolume {
	if v, ok := s.volumes.Get(objects.Key{Name: claim.Spec.VolumeName}); ok {
		if v.Spec.CSI == nil {
			return csiVolume{}
		}
		return csiVolume{v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle}
	}
	class, ok := s.classes.Get(objects.Key{Name: volume.GetPersistentVolumeClaimClass(claim)})
	if !ok {
		return csiVolume{}
	}
	return csiVolume{class.Provisioner, "claim " + claim.Namespace + "/" + claim.Name}
}

// addAttached adds the volumes that are attached to a node.
func (v csiVolumes) addAttached(node string, s *storageObjects) {
	for _, a := range s.attachments(node) {
		name := a.Spec.Source.PersistentVolumeName
		if name == nil || a.Spec.Attacher == "" {
			continue
		}
		if pv, ok := s.volumes.Get(objects.Key{Name: *name}); ok && pv.Spec.CSI != nil {
			v[csiVolume{a.Spec.Attacher, pv.Spec.CSI.VolumeHandle}] = struct{}{}
		}
	}
}

// perDriver counts the volumes of each driver.
func (v csiVolumes) perDriver() map[string]int {
	count := map[string]int{}
	for one := range v {
		count[one.driver]++
	}
	return count
}

// PreFilter skips Filter for pods without volumes of CSI drivers.
func (l nodeVolumeLimits) PreFilter(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	volumes := csiVolumes{}
	volumes.addOf(pod, l.storage)
	if len(volumes) == 0 {
		return nil, framework.NewStatus(framework.Skip)
	}
	state.Write(nodeVolumeLimitsState, volumes)
	return nil, nil
}

func (nodeVolumeLimits) PreFilterExtensions() framework.PreFilterExtensions { return nil }

const nodeVolumeLimitsState framework.StateKey = "NodeVolumeLimits"

func (l nodeVolumeLimits) Filter(_ context.Context, state framework.CycleState, _ *corev1.Pod, info framework.NodeInfo) *framework.Status {
	data, err := state.Read(nodeVolumeLimitsState)
	if err != nil {
		return framework.AsStatus(err)
	}
	node, ok := l.storage.nodes.Get(objects.Key{Name: info.Node().Name})
	if !ok {
		return nil
	}
	limits := limitsOf(node)
	if len(limits) == 0 {
		return nil
	}
	used := csiVolumes{}
	for _, other := range info.GetPods() {
		used.addOf(other.GetPod(), l.storage)
	}
	added := csiVolumes{}
	for v := range data.(csiVolumes) {
		if _, shared := used[v]; !shared {
			added[v] = struct{}{}
		}
	}
	used.addAttached(node.Name, l.storage) // as in Kubernetes, a volume that is attached and that no pod of the node uses counts beside the pod's own
	now := used.perDriver()
	for driver, more := range added.perDriver() {
		if limit, ok := limits[driver]; ok && now[driver]+more > int(limit) {
			return framework.NewStatus(framework.Unschedulable, "node(s) exceed max volume count")
		}
	}
	return nil
}

// limitsOf returns the limits of a node, by driver.
func limitsOf(node *storagev1.CSINode) map[string]int32 {
	limits := map[string]int32{}
	for _, d := range node.Spec.Drivers {
		if d.Allocatable != nil && d.Allocatable.Count != nil {
			limits[d.Name] = *d.Allocatable.Count
		}
	}
	return limits
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
	old := limitsOf(before)
	for driver, limit := range limitsOf(now) {
		if limit > old[driver] {
			return true
		}
	}
	return false
}
