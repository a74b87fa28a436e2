package scheduler

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// recorders are the event recorders of the profiles. Each has the profile's name as its reporter.
type recorders struct {
	client client.Client
	clock  clock.Clock
	source *clock.Source

	mu     sync.Mutex
	byName map[string]*client.Recorder
	start  func(*client.Recorder) // nil before run
}

func newRecorders(c client.Client, clk clock.Clock, src *clock.Source) *recorders {
	return &recorders{client: c, clock: clk, source: src, byName: map[string]*client.Recorder{}}
}

// of returns a profile's recorder.
func (r *recorders) of(profile string) *client.Recorder {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec, ok := r.byName[profile]
	if !ok {
		rec = client.NewRecorder(r.client, r.clock, r.source, profile, instanceName(profile))
		r.byName[profile] = rec
		if r.start != nil {
			r.start(rec)
		}
	}
	return rec
}

// run writes events until ctx ends. Later ones are dropped.
func (r *recorders) run(ctx context.Context) {
	var wg sync.WaitGroup
	r.mu.Lock()
	r.start = func(rec *client.Recorder) { wg.Go(func() { rec.Run(ctx) }) }
	for _, rec := range r.byName {
		r.start(rec)
	}
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	r.start = func(rec *client.Recorder) { rec.Run(ctx) } // returns at once: a clock must not wait for events that nothing writes
	r.mu.Unlock()
	wg.Wait()
}

// action records an Event about a pod under its profile's name.
func (r *recorders) action(ctx context.Context, pod *corev1.Pod, eventtype, reason, action, note string) {
	r.of(pod.Spec.SchedulerName).Action(ctx, pod, eventtype, reason, action, note)
}

func (r *recorders) forProfile(name string) events.EventRecorderLogger {
	return pluginRecorder{r, name}
}

// pluginRecorder implements client-go's interface for a profile's recorder.
type pluginRecorder struct {
	recorders *recorders
	profile   string
}

// Eventf implements events.EventRecorder. The related object is not kept. In a simulation there are no Events.
func (p pluginRecorder) Eventf(regarding, _ runtime.Object, eventtype, reason, action, note string, args ...any) {
	if obj, ok := regarding.(objects.Object); ok && p.recorders.client != nil {
		//nolint:forbidigo // client-go's recorder is given no context
		p.recorders.of(p.profile).Action(context.TODO(), obj, eventtype, reason, action, fmt.Sprintf(note, args...))
	}
}

// WithLogger implements events.EventRecorderLogger; nothing is logged.
func (p pluginRecorder) WithLogger(klog.Logger) events.EventRecorderLogger { return p }
