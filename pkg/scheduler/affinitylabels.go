package scheduler

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kube-scheduler/framework"
)

// AffinityLabels is an optional interface of the Handle's SharedLister: the keys of the labels by which the affinity and
// anti-affinity terms of all assigned pods, required and preferred, select pods. ok is false if no assigned pod has a term.
// Pods of one namespace that agree in these labels look the same to the assigned pods.
type AffinityLabels interface {
	AffinityLabels() (keys []string, ok bool)
}

// labelKeys counts the pods with affinity terms by the label keys in the selectors.
type labelKeys struct {
	pods   int
	counts map[string]int
	sorted []string // nil after a change
}

// add changes the counts by a pod's label keys: by is 1 or -1. keys is nil for a pod without terms.
func (l *labelKeys) add(keys []string, by int) {
	if keys == nil {
		return
	}
	if l.counts == nil {
		l.counts = map[string]int{}
	}
	l.pods += by
	for _, k := range keys {
		before := l.counts[k]
		l.counts[k] += by
		if l.counts[k] == 0 {
			delete(l.counts, k)
		}
		if before == 0 || l.counts[k] == 0 {
			l.sorted = nil
		}
	}
}

// AffinityLabels implements AffinityLabels.
func (s *snapshot) AffinityLabels() ([]string, bool) {
	l := &s.affinity.labelKeys
	if l.sorted == nil {
		l.sorted = slices.Sorted(maps.Keys(l.counts))
	}
	return l.sorted, l.pods > 0
}

// selectedLabels returns the label keys that the selectors of the pod's terms name, each once; nil without terms.
func (p *podInfo) selectedLabels() []string {
	if !hasAffinity(p) {
		return nil
	}
	keys := []string{}
	add := func(selector labels.Selector) {
		requirements, _ := selector.Requirements()
		for i := range requirements {
			if k := requirements[i].Key(); !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	for _, terms := range [][]framework.AffinityTerm{p.affinity, p.anti} {
		for i := range terms {
			add(terms[i].Selector)
		}
	}
	for _, terms := range [][]framework.WeightedAffinityTerm{p.preferredAffinity, p.preferredAnti} {
		for i := range terms {
			add(terms[i].Selector)
		}
	}
	return keys
}
