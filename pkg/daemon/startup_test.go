package daemon

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// TestStartupWaits: a start waits until all conditions hold, one after another, but not longer than startupTimeout.
func TestStartupWaits(t *testing.T) {
	for name, c := range map[string]struct {
		account, node time.Duration // after which the condition holds
		want          time.Duration
	}{
		"both hold":        {0, 0, 0},
		"the first later":  {2 * time.Second, time.Second, 2 * time.Second},
		"the second later": {time.Second, 3 * time.Second, 3 * time.Second},
		"never":            {time.Second, time.Hour, startupTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := startup{changed: make(chan struct{}, 1)}
				for _, after := range []time.Duration{c.account, c.node} {
					var holds atomic.Bool
					s.conditions = append(s.conditions, startupCondition{after.String(), holds.Load})
					holds.Store(after == 0)
					time.AfterFunc(after, func() {
						holds.Store(true)
						select {
						case s.changed <- struct{}{}:
						default:
						}
					})
				}
				service := s.service(clock.Real())
				ctx, cancel := context.WithCancel(t.Context())
				began := time.Now()
				go func() { _ = service.run(ctx) }()
				<-service.ready
				if took := time.Since(began); took != c.want {
					t.Errorf("ready after %v, want %v", took, c.want)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}
