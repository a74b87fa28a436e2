package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
)

// retryAfter is the time after which a loop that has failed runs again.
const retryAfter = 10 * time.Second

// loop writes one kind of defaults in the background: at the start, and each time it is notified.
type loop struct {
	name  string
	wake  chan struct{} // has room for one
	woken atomic.Bool   // notified since the begin of the last run
	run   func(context.Context) error
	pause time.Duration // between two runs: notifications in between are served by one run

	mu      sync.Mutex
	ended   bool
	waiting []chan struct{} // closed when a run that begins from now on has ended
}

// ownWrites is the key in the contexts of a loop's own writes.
type ownWrites struct{}

// notify makes the loop run soon. It does not block.
func (l *loop) notify() {
	l.woken.Store(true)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// notifyAndWait makes the loop run and waits until that run, or ctx, has ended. For the loop's own writes it only notifies it.
func (l *loop) notifyAndWait(ctx context.Context) {
	if ctx.Value(ownWrites{}) != nil {
		l.notify()
		return
	}
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	done := make(chan struct{})
	l.waiting = append(l.waiting, done)
	l.mu.Unlock()
	l.notify()
	clock.YieldTurn(ctx) // to the loop
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// runOnce runs the loop's function and releases the callers that waited for it when it began.
func (l *loop) runOnce(ctx context.Context) error {
	l.woken.Store(false)
	l.mu.Lock()
	waiting := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	defer release(waiting)
	return l.run(context.WithValue(ctx, ownWrites{}, true))
}

// runInTurn is runOnce in a turn.
func (l *loop) runInTurn(ctx context.Context, clk clock.Clock) error {
	ctx, end := clock.TakeTurn(ctx, clk, clock.Rank{Part: "defaults of the cluster", Key: l.name})
	defer end()
	return l.runOnce(ctx)
}

// end releases all callers that wait now or later.
func (l *loop) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	release(l.waiting)
}

func release(waiting []chan struct{}) {
	for _, done := range waiting {
		close(done)
	}
}

func (b *Bootstrap) newLoops() {
	add := func(name string, rest time.Duration, run func(context.Context) error) *loop {
		return &loop{name: name, wake: make(chan struct{}, 1), run: run, pause: rest}
	}
	b.system = add("system objects", 0, b.ensureSystem)
	b.roles = add("roles", 0, b.reconcileRoles)
	b.flow = add("FlowSchemas", 0, b.reconcileFlow)
	b.services = add("APIServices", 0, b.reconcileAPIServices)
	b.addresses = add("IPAddresses", addressDelay, b.reconcileAddresses)
	b.trust = add("authentication ConfigMap", 0, b.reconcileTrust)
	b.tokens = add("token tracking", 0, b.ensureTracking)
	b.leases = add("identity Leases", 0, b.removeLeases)
	b.repairsDue, b.trackingDue, b.leasesDue = &loopTimer{b.config.Clock, b.addresses, nil}, &loopTimer{b.config.Clock, b.tokens, nil}, &loopTimer{b.config.Clock, b.leases, nil}
}

// Run runs the loops until ctx ends.
func (b *Bootstrap) Run(ctx context.Context, access Access) error {
	b.access = access
	var wg sync.WaitGroup
	recorder := func(component, instance string) *client.Recorder {
		r := client.NewRecorder(access.Client(Agent), b.config.Clock, b.config.Source, component, instance)
		wg.Go(func() { _ = r.Run(ctx) }) // fails only when ctx has ended
		return r
	}
	b.repairs = &repairLog{events: recorder(repairManager, instanceName(repairManager))}
	b.rangeEvents = &onceReporter{events: recorder(rangeManager, ""), reported: map[string]bool{}}
	for _, l := range []*loop{b.system, b.roles, b.flow, b.services, b.addresses, b.trust, b.tokens, b.leases} {
		in := clock.Starting(b.config.Clock, l.name)
		wg.Go(func() { l.runUntilDone(in(ctx), b.config.Clock) })
	}
	clock.WorkOf(ctx).End() // the start: each loop counts from now on
	wg.Wait()
	for _, t := range []*loopTimer{b.repairsDue, b.trackingDue, b.leasesDue} {
		t.reset(0)
	}
	return nil
}

// instanceName returns the name of this instance of a component in the Events of its actions.
func instanceName(component string) string {
	host, err := os.Hostname()
	if err != nil {
		return component
	}
	return component + "-" + host
}

// runUntilDone runs a loop until ctx ends.
func (l *loop) runUntilDone(ctx context.Context, clk clock.Clock) {
	ctx, work := clock.Begin(ctx, clk, "defaults of the cluster: "+l.name)
	defer work.End()
	machine := clock.Machine(clk)
	timer := machine.NewTimer(retryAfter)
	timer.Stop()
	defer timer.Stop()
	defer l.end()
	for {
		if err := l.runInTurn(ctx, clk); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "write the defaults of the cluster", "name", l.name, "err", err)
			timer.Reset(retryAfter)
		}
		if l.pause > 0 && !clock.InTurns(clk) {
			work.Idle(l.woken.Load, func() { _ = clock.Sleep(ctx, machine, l.pause) }) // fails only when ctx has ended
		}
		work.Idle(l.woken.Load, func() {
			for again := false; !again && !l.woken.Load() && ctx.Err() == nil; { // wake may be of a notification that was served
				select {
				case <-ctx.Done():
				case <-l.wake:
				case <-timer.C():
					again = true
				}
			}
		})
		if ctx.Err() != nil {
			return
		}
	}
}

// Stored reports whether the store holds any object of a resource, or did since the server's start.
func (b *Bootstrap) Stored(ctx context.Context, gr schema.GroupResource) (bool, error) {
	return b.store.isStored(ctx, gr)
}

// read reports whether a client has read the objects of a resource, or the store holds any: then they must be kept up to
// date.
func (b *Bootstrap) read(ctx context.Context, gr schema.GroupResource) bool {
	stored, err := b.store.isStored(ctx, gr)
	return stored || err != nil || b.store.groups[cache.Prefix(gr)].made()
}

// ServedChanged notifies the loop of the APIServices after the server has begun or stopped to serve a version.
func (b *Bootstrap) ServedChanged() { b.services.notify() }

// wrote notifies the loops whose objects depend on those that a request has written. It waits for the conditions of
// FlowSchemas, so that a client that reads a FlowSchema after it has created it receives them.
func (b *Bootstrap) wrote(ctx context.Context, req *verbs.Request) {
	gr := req.Resource.Names.GR()
	isNamed := func(name string) bool { return req.Name == name || req.Name == "" }
	switch gr {
	case client.Namespaces.GroupResource():
		b.system.notify()
	case client.Services.GroupResource():
		b.addresses.notify()
		if req.Namespace == metav1.NamespaceDefault && isNamed(kubernetesName) {
			b.system.notify()
		}
	case serviceRanges.GroupResource(), ipAddresses.GroupResource():
		b.addresses.notify()
	case flowSchemas.GroupResource(), priorityLevels.GroupResource():
		b.flow.notifyAndWait(ctx)
	case apiServicesResource.GroupResource():
		b.services.notify()
	case client.ConfigMaps.GroupResource():
		if req.Namespace == authentication.Namespace && isNamed(authentication.Name) {
			b.trust.notify()
		}
		if req.Namespace == tracking.Namespace && isNamed(tracking.Name) {
			b.tokens.notify()
		}
	}
}

// ignoreConflict drops errors of a write that another client has preceded: the loop is notified again by that write.
func ignoreConflict(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
