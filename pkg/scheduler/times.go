package scheduler

import (
	"time"

	"k8s.io/kube-scheduler/framework"

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

	calls   []uint32 // by site, of those whose calls are counted
	metrics *metrics
	profile string
	sampled bool // the metrics have the calls one by one
}

// enter ends the call at the present site and begins one at another; 0 is the engine itself.
func (c *callTimes) enter(site uint64) {
	now := c.clock.Since(c.start)
	c.took[c.at] += now - c.since
	c.at, c.since = site, now
}

// now returns the time since start for a later call of ran.
func (c *callTimes) now() time.Duration {
	if c == nil {
		return 0
	}
	return c.clock.Since(c.start)
}

// ran records that the plugins of an extension point have run, since a time from start.
func (c *callTimes) ran(point string, since time.Duration, status *framework.Status) {
	if c != nil {
		c.metrics.ran(point, status, c.profile, c.clock.Since(c.start)-since)
	}
}

// count counts calls at a site.
func (t *tracker) count(s *site, calls int) {
	if t.times != nil {
		t.times.calls[s.index] += uint32(calls)
	}
}

// returned counts the only call at a site since enter, and records the status that it returned.
func (t *tracker) returned(s *site, status *framework.Status) {
	c := t.times
	if c == nil {
		return
	}
	c.calls[s.index]++
	if c.sampled {
		c.metrics.called(s, status, c.now()-c.since)
	}
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
func (s *Scheduler) beginTimes(p *profile, sampled bool) *callTimes {
	if s.decisions.off {
		return nil
	}
	if n := len(s.setup.sites); s.times == nil || len(s.times.took) != n {
		s.times = &callTimes{took: make([]time.Duration, n), calls: make([]uint32, n), metrics: s.metrics}
	}
	c := s.times
	c.clock, c.start, c.at, c.since = s.machine, s.machine.Now(), 0, 0
	c.profile, c.sampled = p.name, sampled
	clear(c.took)
	clear(c.calls)
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
			at := s.setup.sites[i+1]
			a.addTime(at, took)
			if n := c.calls[i+1]; n > 0 && at.evaluations != nil {
				at.evaluations.Add(float64(n))
			}
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
func (a *attempt) measure(at *site) (end func(*framework.Status)) {
	if a.machine == nil {
		return func(*framework.Status) {}
	}
	began := a.machine.Now()
	return func(status *framework.Status) {
		took := a.machine.Since(began)
		a.addTime(at, took)
		if a.sampled {
			a.profile.setup.metrics.called(at, status, took)
		}
	}
}

// now returns the time for a later call of ran.
func (a *attempt) now() (now time.Time) {
	if a.machine != nil {
		now = a.machine.Now()
	}
	return now
}

// ran records that the plugins of an extension point have run since began, outside of the scheduling cycle's section.
func (a *attempt) ran(point string, began time.Time, status **framework.Status) {
	if a.machine != nil {
		a.profile.setup.metrics.ran(point, *status, a.profile.name, a.machine.Since(began))
	}
}
