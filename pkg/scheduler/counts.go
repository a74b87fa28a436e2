package scheduler

import (
	"context"
	"maps"
	"sync"
)

// AttemptKind is a kind of attempts: the profile, and the result as kube-scheduler counts it: scheduled, unschedulable or error.
type AttemptKind struct{ Profile, Result string }

// attemptCounts counts the attempts that have ended. It is safe for concurrent use.
type attemptCounts struct {
	mu sync.Mutex
	of map[AttemptKind]int
}

func (c *attemptCounts) add(kind AttemptKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[AttemptKind]int{}
	}
	c.of[kind]++
}

// Attempts returns the number of attempts of each kind that have ended. It is safe for concurrent use.
func (s *Scheduler) Attempts() map[AttemptKind]int {
	s.attempts.mu.Lock()
	defer s.attempts.mu.Unlock()
	return maps.Clone(s.attempts.of)
}

// Pending returns the number of pods in each queue, by kube-scheduler's names: active, backoff, unschedulable and gated. It returns nil if the loop does not
// respond before ctx ends. It is safe for concurrent use.
func (s *Scheduler) Pending(ctx context.Context) map[string]int {
	counts := make(chan map[string]int, 1)
	s.post(func(context.Context) { counts <- s.queue.counts() })
	select {
	case c := <-counts:
		return c
	case <-ctx.Done():
		return nil
	}
}

func (q *queue) counts() map[string]int {
	c := map[string]int{"active": len(q.activeQ.pods), "backoff": len(q.backoffQ.pods) + len(q.errorBackoffQ.pods), "unschedulable": 0, "gated": 0}
	for _, pods := range q.unschedulable {
		for p := range pods {
			if p.gatingPlugin != "" {
				c["gated"]++
			} else {
				c["unschedulable"]++
			}
		}
	}
	return c
}
