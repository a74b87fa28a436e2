package scheduler

import (
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// callTimes sums the time of plugin calls by site. Each change of the site reads the clock once. The goroutine that runs a section owns it.
type callTimes struct {
	clock clock.Clock
	start time.Time
	at    uint64          // the site of the present call in setup.sites; 0: none
	since time.Duration   // from start to the begin of the present call
	took  []time.Duration // by site
}

// enter ends the call at the present site and begins one at another; 0 is the engine itself.
func (c *callTimes) enter(site uint64) {
	now := c.clock.Since(c.start)
	c.took[c.at] += now - c.since
	c.at, c.since = site, now
}

// measure makes the tracker measure calls until the returned function is called.
func (t *tracker) measure(times *callTimes) (end func()) {
	if times == nil {
		return func() {}
	}
	t.times = times
	return func() {
		times.enter(0)
		t.times = nil
	}
}

// beginTimes returns the times of a new attempt, nil if they are not recorded.
func (s *Scheduler) beginTimes() *callTimes {
	if s.decisions.off {
		return nil
	}
	if n := len(s.setup.sites); s.times == nil || len(s.times.took) != n {
		s.times = &callTimes{took: make([]time.Duration, n)}
	}
	c := s.times
	c.clock, c.start, c.at, c.since = s.machine, s.machine.Now(), 0, 0
	clear(c.took)
	return c
}

// shortestTime is the time below which a plugin's time is not recorded: most calls of an attempt that uses cached results are shorter, and a
// decision would have dozens of them.
const shortestTime = time.Microsecond

// endTimes adds the times of the scheduling cycle to the attempt. An abandoned call may still write them, so only its own time is added.
func (s *Scheduler) endTimes(a *attempt, failure *pluginFailure) {
	switch c := s.times; {
	case c == nil:
	case failure != nil && failure.abandoned:
		s.times = nil
		a.addTime(failure.at, s.timeouts.cycle)
	default:
		for i, took := range c.took[1:] {
			a.addTime(s.setup.sites[i+1], took)
		}
	}
}

// addTime adds the time of a plugin. The calls of extenders have records of their own.
func (a *attempt) addTime(at *site, took time.Duration) {
	if took >= shortestTime && at.Plugin != nil {
		a.times = append(a.times, minikctl.PluginTime{Point: at.point, Plugin: at.name, Took: took})
	}
}

// measure begins a call outside of the scheduling cycle's section. The returned function ends it.
func (a *attempt) measure(at *site) (end func()) {
	if a.machine == nil {
		return func() {}
	}
	began := a.machine.Now()
	return func() { a.addTime(at, a.machine.Since(began)) }
}
