package bootstrap

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
)

// repairLog records the Events of repairs and wakes the loop for those that are due later. Only that loop uses it.
type repairLog struct {
	clock  clock.Clock
	wake   func()
	events *client.Recorder
	timer  clock.Timer
	known  map[finding]string // the resourceVersion that each finding was reported for
}

// finding is what is wrong with an object.
type finding struct {
	uid          types.UID
	reason, note string
}

// again wakes the loop after a time; 0: not at all. It replaces an earlier call.
func (l *repairLog) again(after time.Duration) {
	l.stop()
	if after > 0 {
		l.timer = l.clock.AfterFunc(after, l.wake)
	}
}

func (l *repairLog) stop() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// report records an Event for each repair that is new since the last call, or whose object has changed since then.
func (l *repairLog) report(ctx context.Context, all []repair) {
	now := make(map[finding]string, len(all))
	for _, r := range all {
		if r.reason == "" {
			continue
		}
		f, version := finding{r.about.GetUID(), r.reason, r.note}, r.about.GetResourceVersion()
		if now[f] = version; l.known[f] != version {
			l.events.Action(ctx, r.about, corev1.EventTypeWarning, r.reason, r.action, r.note)
		}
	}
	l.known = now
}
