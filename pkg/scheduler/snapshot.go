package scheduler

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// snapshot is the scheduler's state of the cluster: nodes and their pods, including assumed pods. It is what kube-scheduler's Cache and its Snapshot
// are together: it belongs to the scheduling loop, which changes it only between cycles, so that plugins can read it without a copy. It is a
// framework.SharedLister.
//
// step counts changes. Each nodeInfo has the step of its last change, and the journal lists the latest changes of pods,
// so that a memo of all nodes can be updated incrementally. epoch counts the changes that invalidate every memo: a node
// was added, removed, or changed in a way that plugins can see.
type snapshot struct {
	nodes  []*nodeInfo // nodes with a Node object, sorted by name
	byName map[string]*nodeInfo
	pods   map[types.UID]*assignedPod
	images map[string]*framework.ImageStateSummary
	groups *podGroups
	within *nodeSet // the nodes of the placement in which a pod group is tried; nil: all

	step, epoch uint64
	journal     []PodChange // the latest steps
	infos       []framework.NodeInfo
	domains     map[string]map[string][]int // node indexes by topology key and value; a key is added at first use
	affinity    affinityNodes
	offset      int // where the next search for feasible nodes begins, if it may stop early
}

// affinityNodes are the nodes with pods that have affinity, or required anti-affinity. The lists are built at first
// use.
type affinityNodes struct {
	any, anti         map[*nodeInfo]bool
	anyList, antiList []framework.NodeInfo
	stale             bool
	labelKeys         labelKeys
}

// assignedPod is a pod on a node.
type assignedPod struct {
	info    *podInfo
	node    string
	assumed bool // by this scheduler; not yet observed from the API
}

var _ framework.SharedLister = (*snapshot)(nil)

func newSnapshot() *snapshot {
	return &snapshot{
		byName: map[string]*nodeInfo{}, pods: map[types.UID]*assignedPod{}, images: map[string]*framework.ImageStateSummary{}, groups: newPodGroups(),
		affinity: affinityNodes{any: map[*nodeInfo]bool{}, anti: map[*nodeInfo]bool{}},
	}
}

// copy returns an equal snapshot. The two can be changed independently.
func (s *snapshot) copy() *snapshot {
	c := newSnapshot()
	c.groups = s.groups
	for _, n := range s.nodes {
		c.setNode(n.node)
	}
	for _, p := range s.pods {
		info := *p.info
		c.addPod(&info, p.node, p.assumed)
	}
	c.offset = s.offset
	return c
}

// journalLength bounds how many changes a memo may miss and still be updated node by node.
const journalLength = 1 << 12

// record records that a pod was added to n, or removed from it. Without a Node object no result depends on n's pods.
func (s *snapshot) record(n *nodeInfo, pod *podInfo, by int) {
	if n.node == nil {
		return
	}
	s.step++
	n.changed = s.step
	if len(s.journal) >= 2*journalLength {
		kept := copy(s.journal, s.journal[len(s.journal)-journalLength:])
		clear(s.journal[kept:])
		s.journal = s.journal[:kept]
	}
	s.journal = append(s.journal, PodChange{Pod: pod, Node: n, By: by})
}

// forgetChanges empties the journal, which keeps the pods of all of its changes in memory.
func (s *snapshot) forgetChanges() { s.journal = nil }

// changesSince returns the changes after step, in order; false if the journal no longer reaches back to it.
func (s *snapshot) changesSince(step uint64) ([]PodChange, bool) {
	back := int(s.step - step)
	if back > len(s.journal) {
		return nil, false
	}
	return s.journal[len(s.journal)-back:], true
}

// invalidateMemos invalidates every memo about nodes.
func (s *snapshot) invalidateMemos() {
	s.epoch++
	s.infos, s.domains = nil, nil
	s.affinity.stale = true
}

// info returns the nodeInfo of a name. It creates it at first use.
func (s *snapshot) info(name string) *nodeInfo {
	n, ok := s.byName[name]
	if !ok {
		n = newNodeInfo()
		s.byName[name] = n
	}
	return n
}

// setNode adds or replaces a node object.
func (s *snapshot) setNode(node *corev1.Node) {
	n := s.info(node.Name)
	old := n.node
	if old != nil && schedulingPropertiesEqual(old, node) {
		n.node = node
		return
	}
	s.removeImages(n)
	n.SetNode(node)
	s.addImages(n)
	if old == nil {
		i, _ := s.position(node.Name)
		s.nodes = slices.Insert(s.nodes, i, n)
		s.renumber(i)
	}
	s.step++
	n.changed = s.step
	s.invalidateMemos()
}

// removeNode removes a Node object. Its nodeInfo stays while pods are on it.
func (s *snapshot) removeNode(name string) {
	n, ok := s.byName[name]
	if !ok || n.node == nil {
		return
	}
	s.removeImages(n)
	i, _ := s.position(name)
	s.nodes = slices.Delete(s.nodes, i, i+1)
	s.renumber(i)
	n.index, n.node, n.allocatable = -1, nil, resources{}
	if len(n.pods) == 0 {
		delete(s.byName, name)
	}
	s.invalidateMemos()
}

// candidates returns the nodes that a pod may be assigned to.
func (s *snapshot) candidates() []*nodeInfo {
	if s.within != nil {
		return s.within.nodes
	}
	return s.nodes
}

func (s *snapshot) position(name string) (int, bool) {
	return slices.BinarySearchFunc(s.nodes, name, func(n *nodeInfo, name string) int { return strings.Compare(n.node.Name, name) })
}

func (s *snapshot) renumber(from int) {
	for i := from; i < len(s.nodes); i++ {
		s.nodes[i].index = i
	}
}

// addImages and removeImages update the number of nodes that have each image.
func (s *snapshot) addImages(n *nodeInfo) {
	n.images = make(map[string]*framework.ImageStateSummary, len(n.node.Status.Images))
	for _, image := range n.node.Status.Images {
		for _, name := range image.Names {
			sum, ok := s.images[name]
			if !ok {
				sum = &framework.ImageStateSummary{Size: image.SizeBytes, Nodes: sets.New[string]()}
				s.images[name] = sum
			}
			sum.Nodes.Insert(n.node.Name)
			sum.NumNodes = sum.Nodes.Len()
			n.images[name] = &framework.ImageStateSummary{Size: image.SizeBytes, NumNodes: sum.NumNodes}
		}
	}
	s.shareImageCounts(n.images)
}

func (s *snapshot) removeImages(n *nodeInfo) {
	old := n.images
	n.images = nil
	for name := range old {
		sum := s.images[name]
		sum.Nodes.Delete(n.node.Name)
		sum.NumNodes = sum.Nodes.Len()
		if sum.NumNodes == 0 {
			delete(s.images, name)
		}
	}
	s.shareImageCounts(old)
}

// shareImageCounts updates the counts of these images on every node that has one of them.
func (s *snapshot) shareImageCounts(images map[string]*framework.ImageStateSummary) {
	for name := range images {
		sum, ok := s.images[name]
		if !ok {
			continue
		}
		for node := range sum.Nodes {
			if on := s.byName[node].images[name]; on != nil {
				on.NumNodes = sum.NumNodes
			}
		}
	}
}

// addPod puts a pod on a node and replaces what the snapshot had of the pod. It reports whether the change can affect
// scheduling.
func (s *snapshot) addPod(info *podInfo, node string, assumed bool) bool {
	old, ok := s.pods[info.pod.UID]
	if ok && old.node == node && sameSums(old.info, info) {
		old.info.pod, old.assumed = info.pod, assumed // the sums stay the same; plugins see the newer object
		return false
	}
	if ok {
		s.removePod(info.pod.UID)
	}
	s.pods[info.pod.UID] = &assignedPod{info, node, assumed}
	n := s.info(node)
	n.AddPodInfo(info)
	s.affinity.note(n)
	s.affinity.labelKeys.add(info.affinityLabels, 1)
	s.record(n, info, 1)
	return true
}

// remove removes a pod from its node.
func (s *snapshot) removePod(uid types.UID) (*assignedPod, bool) {
	p, ok := s.pods[uid]
	if !ok {
		return nil, false
	}
	delete(s.pods, uid)
	n := s.info(p.node)
	if err := n.RemovePod(klog.Logger{}, p.info.pod); err != nil {
		panic(fmt.Sprintf("scheduler: an assigned pod is not on its node: %v", err))
	}
	if n.node == nil && len(n.pods) == 0 {
		delete(s.byName, p.node)
	}
	s.affinity.note(n)
	s.affinity.labelKeys.add(p.info.affinityLabels, -1)
	s.record(n, p.info, -1)
	return p, true
}

func (a *affinityNodes) note(n *nodeInfo) {
	if a.any[n] == (len(n.withAffinity) > 0) && a.anti[n] == (len(n.withAnti) > 0) {
		return
	}
	set(a.any, n, len(n.withAffinity) > 0)
	set(a.anti, n, len(n.withAnti) > 0)
	a.stale = true
}

func set(m map[*nodeInfo]bool, n *nodeInfo, in bool) {
	if in {
		m[n] = true
	} else {
		delete(m, n)
	}
}

func (a *affinityNodes) refresh() {
	if a.stale {
		a.anyList, a.antiList, a.stale = listed(a.any), listed(a.anti), false
	}
}

func listed(m map[*nodeInfo]bool) []framework.NodeInfo {
	nodes := make([]*nodeInfo, 0, len(m))
	for n := range m {
		if n.node != nil {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b *nodeInfo) int { return a.index - b.index })
	return erase(nodes)
}

func erase(nodes []*nodeInfo) []framework.NodeInfo {
	out := make([]framework.NodeInfo, len(nodes))
	for i, n := range nodes {
		out[i] = n
	}
	return out
}

// NodeInfos and the methods below implement framework.SharedLister and framework.NodeInfoLister.
func (s *snapshot) NodeInfos() framework.NodeInfoLister           { return s }
func (s *snapshot) StorageInfos() framework.StorageInfoLister     { return s }
func (s *snapshot) PodGroupStates() framework.PodGroupStateLister { return s.groups }

func (s *snapshot) List() ([]framework.NodeInfo, error) {
	if s.infos == nil {
		s.infos = erase(s.nodes)
	}
	return s.infos, nil
}

func (s *snapshot) HavePodsWithAffinityList() ([]framework.NodeInfo, error) {
	s.affinity.refresh()
	return s.affinity.anyList, nil
}

func (s *snapshot) HavePodsWithRequiredAntiAffinityList() ([]framework.NodeInfo, error) {
	s.affinity.refresh()
	return s.affinity.antiList, nil
}

func (s *snapshot) Get(name string) (framework.NodeInfo, error) {
	if n, ok := s.byName[name]; ok && n.node != nil {
		return n, nil
	}
	return nil, fmt.Errorf("nodeinfo not found for node name %q", name)
}

// IsPVCUsedByPods implements framework.StorageInfoLister.
func (s *snapshot) IsPVCUsedByPods(key string) bool {
	for _, n := range s.nodes {
		if n.claims[key] > 0 {
			return true
		}
	}
	return false
}
