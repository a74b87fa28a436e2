package scheduler

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ndf "k8s.io/component-helpers/nodedeclaredfeatures"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/podref"
)

// nodeInfo is a node with its pods and their sums. It is a framework.NodeInfo. node is nil while only pods of the node
// have been observed.
type nodeInfo struct {
	node    *corev1.Node
	index   int    // in the snapshot's list; -1 while node is nil
	changed uint64 // the snapshot's step at the last change

	pods         []framework.PodInfo
	withAffinity []framework.PodInfo
	withAnti     []framework.PodInfo

	requested   resources
	nonzero     resources
	allocatable resources

	ports    framework.HostPortInfo
	images   map[string]*framework.ImageStateSummary
	claims   map[string]int // persistent volume claims, by "namespace/name": how many pods use each
	features ndf.FeatureSet
}

var _ framework.NodeInfo = (*nodeInfo)(nil)

func newNodeInfo() *nodeInfo {
	return &nodeInfo{index: -1, ports: framework.HostPortInfo{}, claims: map[string]int{}}
}

// GetPods and the methods below implement framework.NodeInfo.
func (n *nodeInfo) Node() *corev1.Node                                      { return n.node }
func (n *nodeInfo) GetPods() []framework.PodInfo                            { return n.pods }
func (n *nodeInfo) GetPodsWithAffinity() []framework.PodInfo                { return n.withAffinity }
func (n *nodeInfo) GetPodsWithRequiredAntiAffinity() []framework.PodInfo    { return n.withAnti }
func (n *nodeInfo) GetUsedPorts() framework.HostPortInfo                    { return n.ports }
func (n *nodeInfo) GetRequested() framework.Resource                        { return &n.requested }
func (n *nodeInfo) GetNonZeroRequested() framework.Resource                 { return &n.nonzero }
func (n *nodeInfo) GetAllocatable() framework.Resource                      { return &n.allocatable }
func (n *nodeInfo) GetImageStates() map[string]*framework.ImageStateSummary { return n.images }
func (n *nodeInfo) GetPVCRefCounts() map[string]int                         { return n.claims }
func (n *nodeInfo) GetGeneration() int64                                    { return int64(n.changed) }
func (n *nodeInfo) GetNodeDeclaredFeatures() ndf.FeatureSet                 { return n.features }

// GetNodeAllocatableDRAClaimState is always empty: this scheduler allocates no claims.
func (n *nodeInfo) GetNodeAllocatableDRAClaimState() map[types.NamespacedName]*framework.NodeAllocatableDRAClaimState {
	return nil
}

// SetNode replaces the node object.
func (n *nodeInfo) SetNode(node *corev1.Node) {
	n.node = node
	n.allocatable = resourcesOf(node.Status.Allocatable)
	n.features = ndf.DefaultFramework.TryMap(slices.Sorted(slices.Values(node.Status.DeclaredFeatures)))
}

// AddPodInfo adds a pod and its requests.
func (n *nodeInfo) AddPodInfo(info framework.PodInfo) {
	n.pods = append(n.pods, info)
	if hasAffinity(info) {
		n.withAffinity = append(n.withAffinity, info)
	}
	if len(info.GetRequiredAntiAffinityTerms()) > 0 {
		n.withAnti = append(n.withAnti, info)
	}
	n.addSums(info, 1)
}

// RemovePod removes a pod and its requests.
func (n *nodeInfo) RemovePod(_ klog.Logger, pod *corev1.Pod) error {
	same := func(p framework.PodInfo) bool { return p.GetPod().UID == pod.UID }
	i := slices.IndexFunc(n.pods, same)
	if i < 0 {
		return fmt.Errorf("no corresponding pod %s in pods of node %s", pod.Name, n.name())
	}
	info := n.pods[i]
	n.pods = slices.Delete(n.pods, i, i+1)
	n.withAffinity = slices.DeleteFunc(n.withAffinity, same)
	n.withAnti = slices.DeleteFunc(n.withAnti, same)
	n.addSums(info, -1)
	return nil
}

func hasAffinity(info framework.PodInfo) bool {
	return len(info.GetRequiredAffinityTerms())+len(info.GetRequiredAntiAffinityTerms())+
		len(info.GetPreferredAffinityTerms())+len(info.GetPreferredAntiAffinityTerms()) > 0
}

// addSums changes the sums by a pod: sign is 1 or -1.
func (n *nodeInfo) addSums(info framework.PodInfo, sign int64) {
	r := info.CalculateResource()
	requested, ok := r.Resource.(*resources)
	if !ok {
		own := requestsOf(info.GetPod())
		requested = own.Resource.(*resources)
	}
	n.requested.add(*requested, sign)
	n.nonzero.cpu += sign * r.Non0CPU
	n.nonzero.memory += sign * r.Non0Mem
	n.countPorts(info.GetPod(), sign)
	n.countClaims(info.GetPod(), sign)
}

func (n *nodeInfo) countPorts(pod *corev1.Pod, sign int64) {
	for _, port := range podref.HostPorts(pod) {
		if sign > 0 {
			n.ports.Add(port.HostIP, string(port.Protocol), port.HostPort)
		} else {
			n.ports.Remove(port.HostIP, string(port.Protocol), port.HostPort)
		}
	}
}

func (n *nodeInfo) countClaims(pod *corev1.Pod, sign int64) {
	for i := range pod.Spec.Volumes {
		name := claimName(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		key := pod.Namespace + "/" + name
		if n.claims[key] += int(sign); n.claims[key] <= 0 {
			delete(n.claims, key)
		}
	}
}

func claimName(pod *corev1.Pod, v *corev1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return pod.Name + "-" + v.Name
	}
	return ""
}

// Snapshot returns a copy that pods may be added to and removed from. The pods and the node are shared.
func (n *nodeInfo) Snapshot() framework.NodeInfo {
	c := *n
	c.pods, c.withAffinity, c.withAnti = slices.Clone(n.pods), slices.Clone(n.withAffinity), slices.Clone(n.withAnti)
	c.requested, c.nonzero, c.allocatable = n.requested.clone(), n.nonzero.clone(), n.allocatable.clone()
	c.claims, c.images = maps.Clone(n.claims), maps.Clone(n.images)
	c.ports = framework.HostPortInfo{}
	for ip, ports := range n.ports {
		c.ports[ip] = maps.Clone(ports)
	}
	return &c
}

// String returns the node's name, pods and sums for a log.
func (n *nodeInfo) String() string {
	names := make([]string, 0, len(n.pods))
	for _, p := range n.pods {
		names = append(names, p.GetPod().Name)
	}
	return fmt.Sprintf("node %s: pods %v, requested %+v, allocatable %+v", n.name(), names, n.requested, n.allocatable)
}

func (n *nodeInfo) name() string {
	if n.node == nil {
		return ""
	}
	return n.node.Name
}
