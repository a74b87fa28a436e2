package scheduler

import (
	"context"
	"io"
	"log/slog"
	"sync"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// setup is the current configuration: its profiles with their plugins.
type setup struct {
	settings
	generation int64 // counts the configurations of this scheduler, from 1
	config     *configv1.KubeSchedulerConfiguration
	extenders  []*extender         // in the order of their calls: those whose failures are ignored come last
	profiles   map[string]*profile // by schedulerName
	order      []*profile          // as in the configuration
	sites      []*site             // the first is nil: index 0 means none
	timeouts   timeouts
	features   feature.Gates
	watched    watchedFiles
	resumed    func(*instance)
	metrics    *metrics
	bindings   sync.WaitGroup // binding cycles that call these plugins

	ctx    context.Context //nolint:containedctx // the plugins' own, canceled when they are closed
	cancel context.CancelFunc
}

// newSetup creates the profiles and plugins of a configuration. After an error it closes the plugins that it created. The error is a
// utilerrors.Aggregate of all that is wrong, each with the path of the field.
func (s *Scheduler) newSetup(ctx context.Context, conf *configv1.KubeSchedulerConfiguration) (*setup, error) {
	checked, wrong := checkConfig(conf)
	errs := plain(wrong)
	made := &setup{settings: checked, config: conf, profiles: map[string]*profile{}, sites: []*site{nil}, timeouts: s.timeouts, features: s.features, resumed: s.pluginResumed, metrics: s.metrics}
	made.ctx, made.cancel = context.WithCancel(context.WithoutCancel(ctx))
	errs = append(errs, made.makeExtenders(conf.Extenders)...)
	for i, cfg := range checked.profiles {
		if cfg.PercentageOfNodesToScore == nil {
			cfg.PercentageOfNodesToScore = &checked.percentage
		}
		p := &profile{name: profileName(cfg), percentage: value(cfg.PercentageOfNodesToScore), registry: s.registry,
			plugins: map[string]*instance{}, setup: made, nominator: s.nominator, handles: s.newHandle}
		if made.profiles[p.name] == nil { // otherwise it is a duplicate, which is among the errors
			made.profiles[p.name] = p
		}
		made.order = append(made.order, p)
		errs = append(errs, p.fillFrom(ctx, profilePath(i), cfg)...)
	}
	s.watched = made.watched.list() // also of a configuration that is refused: it may be the file that is wrong
	if len(errs) == 0 {
		errs = made.checkQueueSort()
	}
	if len(errs) > 0 {
		made.close(ctx)
		return nil, utilerrors.NewAggregate(errs)
	}
	return made, nil
}

// checkQueueSort checks that all profiles have the same QueueSort plugin, since they share the queue.
func (m *setup) checkQueueSort() []error {
	var errs []error
	want := m.order[0].queueSort[0].name
	for i, p := range m.order {
		if name := p.queueSort[0].name; name != want {
			errs = append(errs, field.Invalid(profilePath(i).Child("plugins", "queueSort"), name, "must be the same for all profiles"))
		}
	}
	return errs
}

// site adds an extension point of a plugin.
func (m *setup) site(made *instance, point string) *site {
	at := &site{instance: made, point: point, index: uint64(len(m.sites))}
	if made.handle != nil {
		at.evaluations = m.metrics.evaluationsOf(made.name, point, made.handle.ProfileName())
	}
	m.sites = append(m.sites, at)
	return at
}

// instances calls f for each plugin of each profile.
func (m *setup) instances(f func(*instance)) {
	for _, p := range m.order {
		for _, made := range p.plugins {
			f(made)
		}
	}
}

// close waits for the binding cycles that use the plugins, and closes those that are io.Closers.
func (m *setup) close(ctx context.Context) {
	m.bindings.Wait()
	m.instances(func(made *instance) {
		closer, ok := made.Plugin.(io.Closer)
		if !ok {
			return
		}
		err, failure := call(context.WithoutCancel(ctx), &site{instance: made, point: "Close"}, made.timeouts.cycle, func(context.Context) error { return closer.Close() })
		if err != nil && failure == nil {
			slog.WarnContext(ctx, "scheduler plugin not closed", "plugin", made.name, "err", err)
		}
	})
	m.cancel()
	for _, x := range m.extenders {
		x.transport.CloseIdleConnections()
	}
}

// newHandle creates the Handle for one plugin of a profile.
func (s *Scheduler) newHandle(p *profile) *handle {
	spawn := s.spawnLater
	if s.client == nil {
		spawn = func(func(context.Context)) {} // a simulation, without an API
	}
	h := &handle{Namespaces: s.namespaces, profile: p, client: s.client, binder: s.binder, caches: s.caches, selects: s.selects, clock: s.clock, budgets: s.budgets, waiting: s.waiting, bridge: s.bridge,
		objects: s.objects, groups: s.groups, devices: s.devices,
		spawn: spawn, recorder: s.recorders.forProfile(p.name), activate: s.activate, workers: p.setup.parallelism}
	h.cluster.Store(s.shared.Load())
	return h
}

// setCluster sets the snapshot that the Handles read.
func (s *Scheduler) setCluster(cluster *snapshot) {
	s.cluster = cluster
	s.shared.Store(cluster)
	if s.setup != nil {
		s.setup.instances(func(made *instance) {
			if made.hung.Load() == 0 {
				made.handle.cluster.Store(cluster)
			}
		})
	}
}

// callAbandoned leaves the snapshot to an abandoned call that may still read it, and continues with a copy. It drops
// the memo, whose entries may be half updated.
func (s *Scheduler) callAbandoned(*site) {
	s.setCluster(s.cluster.copy())
	s.memo = newMemo()
}

// pluginResumed gives the current snapshot to a plugin whose abandoned calls have all returned.
func (s *Scheduler) pluginResumed(made *instance) {
	s.post(func(context.Context) { made.handle.cluster.Store(s.cluster) })
}
