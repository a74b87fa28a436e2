package scheduler

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
)

// cycleState holds the data about one pod that plugins store for later extension points. It is a framework.CycleState. It
// is safe for concurrent use, because plugins may filter and score nodes concurrently.
type cycleState struct {
	mu   sync.RWMutex
	data map[framework.StateKey]framework.StateData

	skipFilter, skipScore, skipPreBind, parallelPreBind sets.Set[string]
	group                                               framework.PodGroupCycleState
	alone                                               bool // the evaluation is for this pod only: the memo can't keep it
}

var _ framework.CycleState = (*cycleState)(nil)

func newCycleState() *cycleState {
	return &cycleState{data: map[framework.StateKey]framework.StateData{}}
}

// Read and the methods below implement framework.CycleState.
func (s *cycleState) Read(key framework.StateKey) (framework.StateData, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.data[key]
	if !ok {
		return nil, framework.ErrNotFound
	}
	return v, nil
}

func (s *cycleState) Write(key framework.StateKey, v framework.StateData) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data[key] = v
}

func (s *cycleState) Delete(key framework.StateKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.data, key)
}

func (s *cycleState) Clone() framework.CycleState {
	if s == nil {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := newCycleState()
	for k, v := range s.data {
		c.data[k] = v.Clone()
	}
	s.cloneRest(c)
	return c
}

// forBinding returns a copy without CycleData.
func (s *cycleState) forBinding() *cycleState {
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := newCycleState()
	for k, v := range s.data {
		if _, ok := v.(CycleData); !ok {
			c.data[k] = v.Clone()
		}
	}
	s.cloneRest(c)
	return c
}

func (s *cycleState) cloneRest(c *cycleState) {
	c.skipFilter, c.skipScore, c.skipPreBind = s.skipFilter, s.skipScore, s.skipPreBind
	c.parallelPreBind, c.group = s.parallelPreBind, s.group
}

func (s *cycleState) ShouldRecordPluginMetrics() bool                           { return false }
func (s *cycleState) GetSkipFilterPlugins() sets.Set[string]                    { return s.skipFilter }
func (s *cycleState) SetSkipFilterPlugins(p sets.Set[string])                   { s.skipFilter = p }
func (s *cycleState) GetSkipScorePlugins() sets.Set[string]                     { return s.skipScore }
func (s *cycleState) SetSkipScorePlugins(p sets.Set[string])                    { s.skipScore = p }
func (s *cycleState) GetSkipPreBindPlugins() sets.Set[string]                   { return s.skipPreBind }
func (s *cycleState) SetSkipPreBindPlugins(p sets.Set[string])                  { s.skipPreBind = p }
func (s *cycleState) GetParallelPreBindPlugins() sets.Set[string]               { return s.parallelPreBind }
func (s *cycleState) SetParallelPreBindPlugins(p sets.Set[string])              { s.parallelPreBind = p }
func (s *cycleState) ShouldSkipAllPostFilterPlugins() bool                      { return false }
func (s *cycleState) IsPodGroupSchedulingCycle() bool                           { return s.group != nil }
func (s *cycleState) GetPodGroupSchedulingCycle() framework.PodGroupCycleState  { return s.group }
func (s *cycleState) SetPodGroupSchedulingCycle(g framework.PodGroupCycleState) { s.group = g }
