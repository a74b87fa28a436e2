package bootstrap

import (
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// loopTimer notifies a loop after a time of the cluster's clock. Only that loop uses it.
type loopTimer struct {
	clock clock.Clock
	loop  *loop
	timer clock.Timer
}

// reset has the loop notified after a time, or not at all if that is 0. It replaces an earlier call.
func (t *loopTimer) reset(after time.Duration) {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if after > 0 {
		t.timer = t.clock.AfterFunc(after, t.loop.notify)
	}
}
