package schedplugins

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// leads reports whether a pod may be the first of its group that waits, and activate the others. Each pod may once in a round. Without this bound, a group of
// which some pods find a node and others do not would be tried endlessly: one pod waits and activates the others, one of these finds no node and has it
// rejected, and the next one that finds a node activates all of them again.
func (p *coscheduling) leads(key objects.Key, pod types.UID) bool {
	if p.api().Caches() == nil {
		return true // a simulation, in which the pods of a group are tried together and not activated
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock().Now()
	r := p.rounds[key]
	if r == nil || !now.Before(r.ends) {
		r = r.next(now)
		p.rounds[key] = r
	}
	if !r.led[pod] {
		r.led[pod] = true
		return true
	}
	if r.again == nil && !p.closed {
		r.again = p.clock().AfterFunc(r.ends.Sub(now), func() { p.activate(key, "") })
	}
	return false
}

// round is a time in which each pod of a group may once be the first that waits.
type round struct {
	length time.Duration
	ends   time.Time
	led    map[types.UID]bool
	again  clock.Timer // activates the pods when the round ends; nil: none was kept from being the first
}

// The lengths of rounds, which double from the first to the last, as the backoff of a pod does.
const (
	firstRound = time.Second
	lastRound  = 10 * time.Second
)

// next returns the round that begins now, after r. A group that was not tried for a while begins again with a short one.
func (r *round) next(now time.Time) *round {
	length := firstRound
	if r != nil && now.Before(r.ends.Add(lastRound)) {
		length = min(2*r.length, lastRound)
	}
	return &round{length: length, ends: now.Add(length), led: map[types.UID]bool{}}
}

// succeeded forgets the failures of a group.
func (p *coscheduling) succeeded(key objects.Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.failed, key)
	if r := p.rounds[key]; r != nil {
		r.stop()
		delete(p.rounds, key)
	}
}

func (r *round) stop() {
	if r.again != nil {
		r.again.Stop()
	}
}
