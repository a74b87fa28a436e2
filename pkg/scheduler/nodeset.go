package scheduler

import (
	"errors"
	"fmt"

	"k8s.io/kube-scheduler/framework"
)

// nodeSet is a part of a snapshot's nodes. nil means all of them.
type nodeSet struct {
	nodes []*nodeInfo
	at    map[*nodeInfo]int // the index of each in nodes
}

// nodesOf returns the nodes of a placement, nil if these are all. The placement comes from a plugin and may be anything.
func (s *snapshot) nodesOf(p *framework.Placement) (*nodeSet, error) {
	if p == nil {
		return nil, errors.New("placement is nil")
	}
	set := &nodeSet{nodes: make([]*nodeInfo, 0, len(p.Nodes)), at: make(map[*nodeInfo]int, len(p.Nodes))}
	for _, node := range p.Nodes {
		if node == nil || node.Node() == nil {
			return nil, errors.New("placement has a node without its object")
		}
		name := node.Node().Name
		n, ok := s.byName[name]
		switch {
		case !ok || n.node == nil:
			return nil, fmt.Errorf("node %s in placement is not present in snapshot", name)
		case framework.NodeInfo(n) != node:
			return nil, fmt.Errorf("node %s in placement is not the same instance as in the snapshot", name)
		}
		if _, repeated := set.at[n]; !repeated {
			set.at[n] = len(set.nodes)
			set.nodes = append(set.nodes, n)
		}
	}
	if len(set.nodes) == len(s.nodes) {
		return nil, nil //nolint:nilnil // nil is the set of all nodes
	}
	return set, nil
}
