package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Observation is what of a signal is available, of how much.
type Observation struct{ Available, Capacity resource.Quantity }

// Observations are the signals that were measured.
type Observations map[Signal]Observation

// State is what a kubelet remembers between two measurements. The zero value has measured nothing.
type State struct {
	first map[id]time.Time                       // when each threshold that is met was first met
	last  map[corev1.NodeConditionType]time.Time // when each condition was last observed
	met   []Threshold                            // for their whole grace periods
}

// Pressures are the conditions of a node on which thresholds act, in the order in which messages list them.
var pressures = [...]corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure}

// Update takes a measurement at a time into account. It returns the conditions that the node has, and the thresholds that evict pods now.
// A condition stays for the transition period, so that it does not flap.
func (s *State) Update(all []Threshold, o Observations, now time.Time, transition time.Duration) (conditions []corev1.NodeConditionType, evict []Threshold) {
	met := metThresholds(all, o, false)
	for _, t := range metThresholds(s.met, o, true) { // a threshold stays met until its minimum to reclaim is available, too
		if !slices.ContainsFunc(met, func(m Threshold) bool { return m.id() == t.id() }) {
			met = append(met, t)
		}
	}
	first := map[id]time.Time{}
	if s.last == nil {
		s.last = map[corev1.NodeConditionType]time.Time{}
	}
	s.met = nil
	for _, t := range met {
		at, ok := s.first[t.id()]
		if !ok {
			at = now
		}
		first[t.id()] = at
		s.last[conditionOf(t.Signal)] = now
		if now.Sub(at) >= t.Grace {
			s.met = append(s.met, t)
		}
	}
	s.first = first
	for _, c := range pressures {
		at, ok := s.last[c]
		if ok && (now.Equal(at) || now.Sub(at) < transition) {
			conditions = append(conditions, c)
		}
	}
	return conditions, s.met
}

// metThresholds returns the thresholds that are met. With reclaim they are met until their minimum to reclaim is available, too.
func metThresholds(all []Threshold, o Observations, reclaim bool) []Threshold {
	var out []Threshold
	for _, t := range all {
		seen, ok := o[t.Signal]
		if !ok {
			continue
		}
		limit := t.Value.of(seen.Capacity)
		if reclaim && t.MinReclaim != nil {
			limit.Add(t.MinReclaim.of(seen.Capacity))
		}
		if limit.Cmp(seen.Available) > 0 {
			out = append(out, t)
		}
	}
	return out
}
