package client

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/minikctl/minikctl/pkg/clock"
)

// newCorrelator returns client-go's correlator. It combines similar events once there are 10 different messages, and then forgets one of
// these at random, so that a repeated message is sometimes combined and sometimes not. In turns, all further events are combined.
func newCorrelator(clk clock.Clock) *record.EventCorrelator {
	if !clock.InTurns(clk) {
		return record.NewEventCorrelator(clk)
	}
	s := similarEvents{clk, map[string]*messages{}}
	return record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{Clock: clk, KeyFunc: s.key, MaxEvents: maxSimilar, MaxIntervalInSeconds: int(similarFor / time.Second)})
}

// client-go's defaults.
const (
	maxSimilar = 10
	similarFor = 10 * time.Minute
)

// similarEvents has the messages of similar events.
type similarEvents struct {
	clock clock.Clock
	seen  map[string]*messages
}

// messages are the messages of events that follow each other within similarFor.
type messages struct {
	different map[string]bool
	last      time.Time
	more      int // events after maxSimilar different messages
}

// key implements record.EventAggregatorKeyFunc. After maxSimilar different messages each event gets a local key of its own, so that client-go
// combines all further events.
func (s similarEvents) key(ev *corev1.Event) (aggregate, local string) {
	aggregate, local = record.EventAggregatorByReasonFunc(ev)
	now, m := s.clock.Now(), s.seen[aggregate]
	if m == nil || now.Sub(m.last) > similarFor {
		m = &messages{different: map[string]bool{}}
		s.seen[aggregate] = m
	}
	m.last = now
	if len(m.different) >= maxSimilar {
		m.more++
		return aggregate, strconv.Itoa(m.more)
	}
	m.different[local] = true
	for other, o := range s.seen {
		if now.Sub(o.last) > similarFor {
			delete(s.seen, other)
		}
	}
	return aggregate, local
}
