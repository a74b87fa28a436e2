package node

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// zoneState is the state of a zone, by which nodes of the zone are evicted.
type zoneState int

const (
	zoneInitial zoneState = iota
	zoneNormal
	zonePartialDisruption // many nodes are not ready
	zoneFullDisruption    // no node is ready
)

func (s zoneState) String() string {
	return [...]string{"Initial", "Normal", "PartialDisruption", "FullDisruption"}[s]
}

// zoneHealth counts the nodes of a zone.
type zoneHealth struct{ ready, notReady int }

// state returns the state of a zone with this health. threshold is the share of nodes from which a disruption is partial, if at least
// three nodes are not ready.
func (h zoneHealth) state(threshold float64) zoneState {
	switch {
	case h.ready == 0 && h.notReady > 0:
		return zoneFullDisruption
	case h.notReady > 2 && float64(h.notReady)/float64(h.notReady+h.ready) >= threshold:
		return zonePartialDisruption
	}
	return zoneNormal
}

// zones are the states of the zones, and the limiters of the rates at which their nodes are evicted. It is not safe for concurrent use.
type zones struct {
	config   controller.NodeLifecycle
	states   map[string]zoneState
	limiters map[string]*limiter
}

func newZones(config controller.NodeLifecycle) *zones {
	return &zones{config: config, states: map[string]zoneState{}, limiters: map[string]*limiter{}}
}

// limiter returns the limiter of a zone.
func (z *zones) limiter(zone string) *limiter {
	l := z.limiters[zone]
	if l == nil {
		l = newLimiter(z.config.EvictionRate)
		z.limiters[zone] = l
	}
	return l
}

// update sets the states of the zones from their health. entered and left report that the master disruption mode, as Kubernetes calls it,
// begins or ends: no node of any zone is ready. The cause is then most likely the control plane's own network, and evictions stop.
func (z *zones) update(health map[string]zoneHealth, now time.Time) (entered, left bool) {
	states := map[string]zoneState{}
	all := true
	for zone, h := range health {
		states[zone] = h.state(z.config.UnhealthyZoneThreshold)
		all = all && states[zone] == zoneFullDisruption
	}
	before := true
	for zone, state := range z.states {
		if _, ok := health[zone]; !ok {
			delete(z.states, zone)
			delete(z.limiters, zone)
			continue
		}
		before = before && state == zoneFullDisruption
	}
	for zone := range states {
		if _, ok := z.states[zone]; !ok {
			z.states[zone] = zoneInitial
			before = false
		}
	}
	for zone, state := range states {
		switch {
		case all:
			z.limiter(zone).setRate(0, now)
		case before || z.states[zone] != state:
			z.limiter(zone).setRate(z.rate(state, health[zone]), now)
		}
	}
	z.states = states
	return all && !before, before && !all
}

// rate returns the rate at which nodes of a zone are evicted, in nodes a second, while another node of the cluster is ready.
func (z *zones) rate(state zoneState, h zoneHealth) float64 {
	switch {
	case state != zonePartialDisruption:
		return z.config.EvictionRate
	case h.ready+h.notReady > z.config.LargeClusterSizeThreshold:
		return z.config.SecondaryEvictionRate
	}
	return 0
}

// limiter allows evictions at a rate, one at a time.
type limiter struct {
	rate   float64       // nodes a second; 0: none
	bucket *rate.Limiter // nil for the rate 0
}

func newLimiter(perSecond float64) *limiter {
	l := &limiter{rate: perSecond}
	if perSecond > 0 {
		l.bucket = rate.NewLimiter(rate.Limit(perSecond), 1)
	}
	return l
}

// allow reports whether a node may be evicted now, and if so counts it.
func (l *limiter) allow(now time.Time) bool { return l.bucket != nil && l.bucket.AllowN(now, 1) }

// setRate changes the rate. A limiter that would not allow an eviction now allows the next one after the time of the new rate.
func (l *limiter) setRate(perSecond float64, now time.Time) {
	if l.rate == perSecond {
		return
	}
	next := newLimiter(perSecond)
	if !l.allow(now) {
		next.allow(now)
	}
	*l = *next
}

// next returns how long until allow may be true, 0 for never.
func (l *limiter) next(now time.Time) time.Duration {
	if l.bucket == nil {
		return 0
	}
	missing := max(0, 1-l.bucket.TokensAt(now)) / float64(l.bucket.Limit())
	return max(1, time.Duration(math.Ceil(missing/evictionPeriod.Seconds()))) * evictionPeriod
}

// evictionPeriod is the period at which Kubernetes checks whether a node can be evicted.
const evictionPeriod = 100 * time.Millisecond
