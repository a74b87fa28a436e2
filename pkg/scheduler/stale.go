package scheduler

// Stale collects the nodes whose results of an Incremental plugin may have changed.
type Stale struct {
	cluster *snapshot
	nodes   []int // indexes in the snapshot, possibly with duplicates; unused if all
	all     bool
}

// Domain adds the nodes whose label key has the value.
func (s *Stale) Domain(key, value string) {
	if !s.all {
		s.nodes = append(s.nodes, s.cluster.domain(key)[value]...)
	}
}

// All adds all nodes.
func (s *Stale) All() { s.all = true }

func (s *Stale) reset() { s.nodes, s.all = s.nodes[:0], false }

// each calls f with the index of each added node among the candidates of e. It stops when f returns false, and then returns false.
func (s *Stale) each(e *evaluation, f func(at int) bool) bool {
	if s.all {
		for at := range e.candidates {
			if !f(at) {
				return false
			}
		}
		return true
	}
	for _, i := range s.nodes {
		if at := e.indexOf(s.cluster.nodes[i]); at >= 0 && !f(at) {
			return false
		}
	}
	return true
}

// domain returns the indexes of the nodes by their value of a topology key.
func (s *snapshot) domain(key string) map[string][]int {
	if values, ok := s.domains[key]; ok {
		return values
	}
	values := map[string][]int{}
	for i, n := range s.nodes {
		if value, ok := n.node.Labels[key]; ok {
			values[value] = append(values[value], i)
		}
	}
	if s.domains == nil {
		s.domains = map[string]map[string][]int{}
	}
	s.domains[key] = values
	return values
}
