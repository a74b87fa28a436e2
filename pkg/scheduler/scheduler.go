// Package scheduler owns the decision of which node a pod runs on: the queue of waiting pods, the picture of the
// cluster, the cycle that asks the plugins, and the binding.
//
// One goroutine, the loop, owns queue and picture. What others have to tell it (changes of pods and nodes, bindings that
// failed, a new configuration) waits in its inbox and is taken in between cycles, so a cycle needs no locks and no copies
// and is a function of what it is given (cycle.go). Binding goes on beside the loop: a pod that was given a node is
// assumed to be there at once.
//
// Plugins meet k8s.io/kube-scheduler/framework and are configured by KubeSchedulerConfiguration v1. Those that sign pods
// and are NodeLocal let the loop remember what they said about each node (memo.go), so that after a placement only the
// node that took the pod is judged again.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
)

// Config is what a Scheduler is made of. Client, Clock, Source and Registry are required.
type Config struct {
	Client   client.Client // under the scheduler's identity, system:kube-scheduler
	Clock    clock.Clock
	Source   *clock.Source // chooses among equally good nodes
	Registry Registry

	// Config or ConfigFile configure profiles and plugins; neither means the defaults. A file is read again whenever it
	// changes; one that is wrong is refused and what was in force stays.
	Config     *configv1.KubeSchedulerConfiguration
	ConfigFile string
	// Reloaded, if not nil, is told of each time the file was read again: nil, or why it was refused.
	Reloaded func(error)
	// Decided, if not nil, is told of each decision, in the loop: it must not block. It is for tests and measurements.
	Decided func(pod, node string)
}

// Scheduler gives pods nodes.
type Scheduler struct {
	client   client.Client
	clock    clock.Clock
	source   *clock.Source
	draws    *clock.Source // of its own, so that nothing but decisions advances it
	registry Registry
	caches   *client.Caches
	file     string
	fileRead []byte // what New found in it
	reloaded func(error)
	decided  func(pod, node string)

	inbox      inbox
	namespaces Namespaces
	waiting    *waitingPods
	bridge     *bridge
	recorders  *recorders
	decisions  *reporter
	inflight   chan struct{} // one for each call to the API that is under way
	work       sync.WaitGroup

	// The loop's own.
	setup   *setup
	cluster *snapshot
	queue   *queue
	memo    *memo
	binding map[string]*queued // pods with a node whose binding is under way, by UID
}

// setup is a configuration made into profiles.
type setup struct {
	settings
	profiles map[string]*profile // by schedulerName
}

// maxInflight bounds how many calls to the API are under way; the loop waits when there are more.
const maxInflight = 512

// New returns a scheduler. An error is about the configuration.
func New(cfg Config) (*Scheduler, error) {
	s := &Scheduler{
		client: cfg.Client, clock: cfg.Clock, source: cfg.Source, draws: clock.NewSource(uint64(cfg.Source.IntN(1 << 62))),
		registry: cfg.Registry, caches: client.NewCaches(cfg.Client, cfg.Clock), file: cfg.ConfigFile,
		reloaded: cfg.Reloaded, decided: cfg.Decided,
		waiting: newWaitingPods(), cluster: newSnapshot(), memo: newMemo(), binding: map[string]*queued{},
		inflight: make(chan struct{}, maxInflight),
	}
	s.inbox.signal = make(chan struct{}, 1)
	s.namespaces = cachedNamespaces{s.caches.Namespaces()}
	s.bridge = newBridge(cfg.Client)
	s.recorders = newRecorders(s.client, s.clock, s.source)
	s.decisions = newReporter(s.client, s.clock, s.source)
	conf := cfg.Config
	if conf == nil {
		var err error
		if conf, s.fileRead, err = readConfig(cfg.ConfigFile); err != nil {
			return nil, err
		}
	}
	made, err := s.prepare(context.TODO(), conf) //nolint:forbidigo // Run's comes later, and plugins are to be checked now
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.TrimSpace("scheduler config "+cfg.ConfigFile), err)
	}
	s.setup = made
	s.queue = newQueue(made.profiles, made.backoff)
	return s, nil
}

// prepare makes profiles and plugins of a configuration.
func (s *Scheduler) prepare(ctx context.Context, conf *configv1.KubeSchedulerConfiguration) (*setup, error) {
	checked, err := checkConfig(conf)
	if err != nil {
		return nil, err
	}
	made := &setup{settings: checked, profiles: map[string]*profile{}}
	sorter := ""
	for _, cfg := range checked.profiles {
		if cfg.PercentageOfNodesToScore == nil {
			cfg.PercentageOfNodesToScore = &checked.percentage
		}
		p, err := newProfile(ctx, cfg, s.registry, func(p *profile) framework.Handle {
			return &handle{Namespaces: s.namespaces, profile: p, client: s.client, cluster: s.cluster, waiting: s.waiting, bridge: s.bridge, recorder: s.recorders.forProfile(p.name),
				activate: s.activate, workers: checked.parallelism}
		})
		if err != nil {
			return nil, err
		}
		if name := p.queueSort[0].Name(); sorter != "" && sorter != name {
			return nil, errors.New("different queue sort plugins")
		} else {
			sorter = name
		}
		made.profiles[p.name] = p
	}
	return made, nil
}

// Run schedules until ctx ends, and returns when every call that was under way has ended.
func (s *Scheduler) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer s.work.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	pods, nodes := s.caches.Pods(), s.caches.Nodes()
	pods.Subscribe(s.podChanged)
	nodes.Subscribe(s.nodeChanged)
	wg.Go(func() { s.caches.Run(ctx) })
	wg.Go(func() { s.recorders.run(ctx) })
	wg.Go(func() { s.decisions.run(ctx) })
	if s.file != "" {
		wg.Go(func() { s.follow(ctx) })
	}
	if err := s.caches.WaitSynced(ctx); err != nil {
		return nil // asked to end before the first list was in
	}
	s.bridge.start(ctx)
	defer s.bridge.stop()
	defer cancel()
	slog.InfoContext(ctx, "scheduler ready", "profiles", len(s.setup.profiles))
	s.loop(ctx)
	return nil
}

// loop takes in what happened and schedules the next pod, and waits when there is none.
func (s *Scheduler) loop(ctx context.Context) {
	flush := s.clock.NewTicker(flushEvery)
	defer flush.Stop()
	for ctx.Err() == nil {
		began := s.clock.Now()
		s.takeIn(ctx)
		if p := s.queue.pop(ctx, s.clock.Now()); p != nil {
			s.attempt(ctx, p, began)
			continue
		}
		s.idle(ctx, flush.C())
	}
}

// idle waits until there may be something to do.
func (s *Scheduler) idle(ctx context.Context, flush <-chan time.Time) {
	var due <-chan time.Time
	if next := s.queue.next(); !next.IsZero() {
		t := s.clock.NewTimer(next.Sub(s.clock.Now()))
		defer t.Stop()
		due = t.C()
	}
	select {
	case <-ctx.Done():
	case <-s.inbox.signal:
	case <-due:
	case <-flush:
		s.queue.flush(ctx, s.clock.Now())
	}
}

// beside runs a call to the API next to the loop, once there are not too many.
func (s *Scheduler) beside(ctx context.Context, call func()) {
	select {
	case s.inflight <- struct{}{}:
	case <-ctx.Done():
		return
	}
	s.work.Go(func() {
		defer func() { <-s.inflight }()
		call()
	})
}

// instance names this scheduler in events.
func instance(profile string) string {
	host, err := os.Hostname()
	if err != nil {
		return profile
	}
	return profile + "-" + host
}
