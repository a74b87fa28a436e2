package bootstrap

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
)

// repairLog records the Events of repairs. Only the loop of the addresses uses it.
type repairLog struct {
	events *client.Recorder
	known  map[finding]string // the resourceVersion that each finding was reported for
}

// finding is what is wrong with an object.
type finding struct {
	uid          types.UID
	reason, note string
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
