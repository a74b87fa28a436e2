// Package scheduler owns the decision of which node a pod runs on: the scheduling queue, the snapshot of the cluster, the
// scheduling cycle that calls the plugins, and the binding cycle.
//
// One goroutine, the loop, owns queue and snapshot. Changes of pods and nodes, failed bindings and new configurations
// wait in its inbox and are applied between cycles, so a cycle needs no locks and no copies and is a function of its
// arguments (cycle.go). Binding cycles run beside the loop: a pod is assumed on its node at once.
//
// Plugins implement k8s.io/kube-scheduler/framework and are configured by KubeSchedulerConfiguration v1. Their calls pass
// a boundary that contains panics and hangs (boundary.go). To contain a hang costs a change of goroutine, which takes longer
// than most calls, so calls of Cooperative plugins, such as minikctl's own, run on the loop's goroutine. The loop caches the
// results of plugins that sign pods and are NodeLocal or Incremental (memo.go), so that after a pod is assumed only the changed
// node, and the nodes that share a topology domain with it, are filtered and scored again.
package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// Config configures a Scheduler. Client, Clock, Source and Registry are required.
type Config struct {
	Client   client.Client // under the scheduler's identity, system:kube-scheduler
	Clock    clock.Clock
	Source   *clock.Source // draws among equally good nodes
	Registry Registry
	Features feature.Gates // of the API server

	// Remote reports that the API server is in another process: bindings that are made at the same time share requests.
	Remote bool

	// Config or ConfigFile configure profiles and plugins; neither means the defaults. A file is reloaded when it changes.
	// An invalid one is refused: the configuration in force stays, and an Event on the namespace kube-system gives the reason.
	Config     *configv1.KubeSchedulerConfiguration
	ConfigFile string
	// Reloaded, if not nil, is called after each reload, with the error if it was refused.
	Reloaded func(error)
	// Timeouts bound the calls of plugins; zero values mean the defaults.
	Timeouts PluginTimeouts
	// Decided, if not nil, is called in the loop with each decision and must not block. It is for tests and benchmarks.
	Decided func(pod, node string)
	// NoDecisions is for benchmarks: neither decisions nor the times of plugins are recorded.
	NoDecisions bool
}

// PluginTimeouts bound single calls of plugins: by default 10 seconds in the scheduling cycle and 15 minutes in a binding
// cycle (PreBind, Bind, PostBind). A plugin whose call exceeds them is suspended until the call returns.
type PluginTimeouts struct{ Cycle, Binding time.Duration }

// Scheduler binds pods to nodes.
type Scheduler struct {
	client   client.Client
	clock    clock.Clock
	machine  clock.Clock // measures stages
	source   *clock.Source
	random   *clock.Source // only decisions draw from it, so that they are reproducible
	registry Registry
	caches   *client.Caches
	features feature.Gates
	objects  *watchedObjects
	file     string
	fileRead []byte        // its content when New read it
	watched  []fileVersion // files that the factories of the last configuration read; New, and then watchConfig, write it
	reloaded func(error)
	decided  func(pod, node string)

	inbox      inbox
	namespaces Namespaces
	budgets    func() []*policyv1.PodDisruptionBudget
	selects    *client.Caches // of Services and controllers; caches, except in a simulation
	waiting    *waitingPods
	nominator  *nominator
	groups     *podGroups
	devices    *devices
	bridge     *bridge
	binder     *binder
	recorders  *recorders
	decisions  *reporter
	apiCalls   chan struct{} // holds one value for each API call under way
	work       sync.WaitGroup

	timeouts timeouts
	shared   atomic.Pointer[snapshot] // cluster, for the Handles of new plugins
	ready    atomic.Bool              // the caches have synced, and Run has not ended
	metrics  *metrics

	// The fields below belong to the loop.
	calls   cycleCalls
	times   *callTimes // of the present attempt; nil: decisions are not recorded, or there was no attempt
	begun   uint64     // attempts
	setup   *setup
	cluster *snapshot
	queue   *queue
	memo    *memo
	watches map[framework.EventResource]int // of resources whose events plugins registered for
	binding map[string]*queuedPodInfo       // pods with a node whose binding is under way, by UID
	flushed time.Time                       // when flush was last due
}

// maxAPICalls bounds the API calls in progress; the loop waits while the number is reached.
const maxAPICalls = 512

// New returns a scheduler with the plugins of its configuration. It fails if the configuration is invalid.
func New(cfg Config) (*Scheduler, error) {
	s := &Scheduler{
		client: cfg.Client, clock: cfg.Clock, machine: clock.Machine(cfg.Clock), source: cfg.Source, random: clock.NewSource(uint64(cfg.Source.IntN(1 << 62))),
		registry: cfg.Registry, features: cfg.Features, objects: &watchedObjects{}, caches: client.NewCaches(cfg.Client, cfg.Clock), file: cfg.ConfigFile,
		reloaded: cfg.Reloaded, decided: cfg.Decided,
		waiting: newWaitingPods(), nominator: newNominator(), memo: newMemo(), binding: map[string]*queuedPodInfo{}, watches: map[framework.EventResource]int{},
		apiCalls: make(chan struct{}, maxAPICalls),
	}
	s.inbox.signal = make(chan struct{}, 1)
	s.namespaces = newCachedNamespaces(s.caches.Namespaces())
	s.budgets, s.selects = cachedBudgets(s.caches), s.caches
	s.devices = newDevices()
	s.bridge = newBridge(cfg.Client)
	s.binder = &binder{client: cfg.Client, batches: cfg.Remote}
	s.bridge.Observe(s.informerChanged)
	s.recorders = newRecorders(s.client, s.clock, s.source)
	s.decisions = newReporter(s.client, s.clock, s.source)
	s.decisions.off = cfg.NoDecisions
	conf := cfg.Config
	if conf == nil {
		var err error
		if conf, s.fileRead, err = readConfig(cfg.ConfigFile); err != nil {
			return nil, err
		}
	}
	if err := s.init(context.TODO(), conf, cfg.Timeouts); err != nil { //nolint:forbidigo // New has no context; a wrong config must fail here, before Run
		return nil, ConfigError(strings.TrimSpace("scheduler config "+cfg.ConfigFile), err)
	}
	return s, nil
}

// init creates the data of the loop.
func (s *Scheduler) init(ctx context.Context, conf *configv1.KubeSchedulerConfiguration, limits PluginTimeouts) error {
	s.timeouts = timeouts{cmp.Or(limits.Cycle, cycleTimeout), cmp.Or(limits.Binding, bindingTimeout)}
	s.metrics = newMetrics(s.features)
	s.calls = cycleCalls{timeout: s.timeouts.cycle, abandoned: s.callAbandoned}
	cluster := newSnapshot()
	s.groups = cluster.groups
	s.setCluster(cluster)
	made, err := s.newSetup(ctx, conf)
	if err != nil {
		return err
	}
	made.generation = 1
	s.setup, s.calls.sites = made, made.sites
	s.queue = newQueue(&s.calls, made.profiles, made.backoff)
	s.queue.failed, s.queue.gated = s.enqueueFailed, s.reportGated
	s.queue.enqueued, s.queue.hinted, s.queue.gateRan = s.metrics.enqueued, s.metrics.hinted, s.metrics.ran
	return nil
}

// Run schedules until ctx ends, and returns when all binding cycles have ended and the plugins are closed.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx, work := clock.Begin(ctx, s.clock, "scheduling loop")
	defer work.End()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.binder.senders.Wait()
	defer s.stopPlugins(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	pods, nodes := s.caches.Pods(), s.caches.Nodes()
	pods.Subscribe(s.podChanged)
	nodes.Subscribe(s.nodeChanged)
	wg.Go(func() { s.caches.Run(ctx) })
	wg.Go(func() { s.recorders.run(ctx) })
	wg.Go(func() { s.decisions.run(ctx) })
	s.reportConfig(ctx, s.setup)
	wg.Go(func() { s.decisions.runConfigs(ctx) })
	if s.file != "" {
		wg.Go(func() { s.watchConfig(ctx) })
	}
	if err := s.caches.WaitSynced(ctx); err != nil {
		return nil // ctx ended before the caches had synced
	}
	if err := s.startDevices(ctx); err != nil {
		return nil // ctx ended
	}
	s.bridge.start(ctx)
	defer s.bridge.stop()
	defer cancel()
	slog.InfoContext(ctx, "scheduler ready", "profiles", len(s.setup.profiles))
	s.ready.Store(true)
	defer s.ready.Store(false)
	s.loop(ctx, work)
	return nil
}

// stopPlugins waits for the binding cycles and closes the plugins.
func (s *Scheduler) stopPlugins(ctx context.Context) {
	s.work.Wait()
	s.calls.close()
	s.setup.close(ctx)
}

// loop applies the notes of the inbox and schedules the next pod, and waits when there is neither.
func (s *Scheduler) loop(ctx context.Context, work *clock.Work) {
	s.flushed = s.clock.Now()
	s.watchEvents(ctx)
	for ctx.Err() == nil {
		if s.step(ctx) {
			continue
		}
		s.idle(ctx, work)
	}
}

// step applies the notes of the inbox and schedules the next pod. It returns false if there is none.
func (s *Scheduler) step(ctx context.Context) bool {
	ctx, end := clock.TakeTurn(ctx, s.clock, clock.Rank{Part: "scheduler"})
	defer end()
	began := s.machine.Now()
	s.drainInbox(ctx)
	s.flush(ctx)
	p := s.queue.pop(ctx, s.clock.Now())
	if p != nil {
		s.attempt(ctx, p, began)
	}
	return p != nil
}

// flush retries pods that have been unschedulable for too long, and resources that could not be watched, at each flushEvery.
func (s *Scheduler) flush(ctx context.Context) {
	now := s.clock.Now()
	if late := now.Sub(s.flushed); late >= flushEvery {
		s.flushed = s.flushed.Add(late.Truncate(flushEvery))
		s.queue.flushUnschedulable(ctx, now)
		s.watchEvents(ctx)
	}
}

// nextFlush returns the time of the next flush, zero if there is nothing to retry.
func (s *Scheduler) nextFlush() time.Time {
	refused := false
	for _, state := range s.watches {
		refused = refused || state == watchRefused
	}
	if !refused && len(s.queue.unschedulable) == 0 {
		return time.Time{}
	}
	return s.flushed.Add(flushEvery)
}

// idle waits for a note, the end of a backoff or a flush.
func (s *Scheduler) idle(ctx context.Context, work *clock.Work) {
	next := s.queue.next()
	if flush := s.nextFlush(); next.IsZero() || !flush.IsZero() && flush.Before(next) {
		next = flush
	}
	if !next.IsZero() {
		t := s.clock.AfterFunc(next.Sub(s.clock.Now()), func() { s.post(func(context.Context) {}) })
		defer t.Stop()
	}
	work.Idle(s.inbox.nonEmpty.Load, func() {
		for !s.inbox.nonEmpty.Load() && ctx.Err() == nil { // the signal may be that of notes that were taken
			select {
			case <-ctx.Done():
			case <-s.inbox.signal:
			}
		}
	})
}

// spawn runs f in a goroutine. It first waits while maxAPICalls calls are in progress. f counts among them until it
// ends, or for the duration while. spawn returns false if ctx has ended, and then does not run f.
func (s *Scheduler) spawn(ctx context.Context, while time.Duration, f func(ctx context.Context)) bool {
	if clock.InTurns(s.clock) { // the loop must not wait for others in its turn
		s.work.Add(1)
		clock.GoTurn(ctx, s.clock, clock.Rank{Part: "scheduler, API calls"}, func(ctx context.Context) {
			defer s.work.Done()
			f(ctx)
		})
		return true
	}
	select {
	case s.apiCalls <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	ctx, work := clock.Begin(ctx, s.clock, "API calls of the scheduler")
	s.work.Go(func() {
		defer work.End()
		release := sync.OnceFunc(func() { <-s.apiCalls })
		defer release()
		defer wallClock.AfterFunc(while, release).Stop()
		f(ctx)
	})
	return true
}

// spawnLater spawns f from the loop, under its context.
func (s *Scheduler) spawnLater(f func(ctx context.Context)) {
	s.post(func(ctx context.Context) { s.spawn(ctx, slowBinding, f) })
}

// instanceName names this scheduler in events.
func instanceName(profile string) string {
	host, err := os.Hostname()
	if err != nil {
		return profile
	}
	return profile + "-" + host
}
