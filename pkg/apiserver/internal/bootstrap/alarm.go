package bootstrap

import (
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// alarm wakes a loop after a time of the cluster's clock. Only that loop uses it.
type alarm struct {
	clock clock.Clock
	loop  *loop
	timer clock.Timer
}

// again wakes the loop after a time; 0: not at all. It replaces an earlier call.
func (a *alarm) again(after time.Duration) {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if after > 0 {
		a.timer = a.clock.AfterFunc(after, a.loop.notify)
	}
}
