package schedplugins

import (
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// keptAllocations holds what claims got on the nodes. The result of an allocation depends on the specs of the claims, on the node and on what has
// a part in the node's device revision, so that it is the same for the next pod until one of these changes.
type keptAllocations struct {
	mu    sync.Mutex
	nodes map[string]*keptOnNode
}

type keptOnNode struct {
	node     *corev1.Node
	revision uint64
	results  map[string][]resourcev1.AllocationResult // by the specs of the claims; nil: they can't be allocated
}

// maxKept bounds the results of a node: those of pods with different claims.
const maxKept = 16

// get returns what claims with these specs got on a node at a revision, and whether it is known. The result is shared.
func (k *keptAllocations) get(node *corev1.Node, revision uint64, specs string) ([]resourcev1.AllocationResult, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	on := k.nodes[node.Name]
	if on == nil || on.node != node || on.revision != revision {
		return nil, false
	}
	got, ok := on.results[specs]
	return got, ok
}

// put keeps a result, which the caller must not change.
func (k *keptAllocations) put(node *corev1.Node, revision uint64, specs string, got []resourcev1.AllocationResult) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.nodes == nil {
		k.nodes = map[string]*keptOnNode{}
	}
	on := k.nodes[node.Name]
	if on == nil || on.node != node || on.revision != revision || len(on.results) == maxKept {
		on = &keptOnNode{node: node, revision: revision, results: map[string][]resourcev1.AllocationResult{}}
		k.nodes[node.Name] = on
	}
	on.results[specs] = got
}

// limit forgets all results if most are of nodes that no longer exist.
func (k *keptAllocations) limit(nodes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.nodes) > 2*nodes {
		k.nodes = nil
	}
}

// specsOf returns the key of claims with the same specs.
func specsOf(claims []*resourcev1.ResourceClaim) (string, error) {
	var specs []byte
	for _, claim := range claims {
		data, err := claim.Spec.Marshal()
		if err != nil {
			return "", err
		}
		specs = append(strconv.AppendInt(specs, int64(len(data)), 10), ':')
		specs = append(specs, data...)
	}
	return string(specs), nil
}
