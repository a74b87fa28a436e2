package scheduler

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics returns a collector of the scheduler's metrics for one request. Those that describe the state of the queue and the snapshot are left out
// while the scheduler is not ready, and if the loop does not respond before ctx ends. It is safe for concurrent use.
func (s *Scheduler) Metrics(ctx context.Context) prometheus.Collector { return collector{s, ctx} }

type collector struct {
	s   *Scheduler
	ctx context.Context //nolint:containedctx // of the request that the collector is for
}

// Describe implements prometheus.Collector: the descriptions are those of the metrics.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, m := range c.s.metrics.all {
		m.Collect(out)
	}
	if !c.s.Ready() {
		return
	}
	states := make(chan gauges, 1)
	c.s.post(func(context.Context) { states <- c.s.gauges() })
	select {
	case g := <-states:
		g.collect(out)
	case <-c.ctx.Done():
	}
}

// gauges are the numbers of pods and nodes that the loop has at one time.
type gauges struct {
	pending       map[string]int // pods by queue: active, backoff, unschedulable and gated
	unschedulable map[blocker]int
	cached        map[string]int // nodes, pods and assumed pods
}

// blocker is a plugin that rejected a pod of a profile.
type blocker struct{ plugin, profile string }

// gauges counts the pods of the queue, and the objects of the snapshot.
func (s *Scheduler) gauges() gauges {
	g := gauges{
		pending:       map[string]int{"active": len(s.queue.activeQ.pods), "backoff": len(s.queue.backoffQ.pods) + len(s.queue.errorBackoffQ.pods), "unschedulable": 0, "gated": 0},
		unschedulable: map[blocker]int{},
		cached:        map[string]int{"nodes": len(s.cluster.candidates()), "pods": len(s.cluster.pods), "assumed_pods": 0},
	}
	for _, p := range s.queue.pods {
		switch {
		case p.location != inUnschedulable:
		case p.gatingPlugin != "":
			g.pending["gated"]++
		default:
			g.pending["unschedulable"]++
		}
		if p.location == inFlight {
			continue
		}
		for plugin := range p.unschedulablePlugins.Union(p.pendingPlugins) {
			if plugin != anyNode {
				g.unschedulable[blocker{plugin, p.info.pod.Spec.SchedulerName}]++
			}
		}
	}
	for _, p := range s.cluster.pods {
		if p.assumed {
			g.cached["assumed_pods"]++
		}
	}
	return g
}

// collect sends the gauges.
func (g gauges) collect(out chan<- prometheus.Metric) {
	send := func(name, help string, labels []string, value int, values ...string) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(prefix+name, help, labels, nil), prometheus.GaugeValue, float64(value), values...)
	}
	for queue, n := range g.pending {
		send("pending_pods", "[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; "+
			"'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed; "+
			"'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated.", []string{"queue"}, n, queue)
	}
	for by, n := range g.unschedulable {
		send("unschedulable_pods", "[BETA] The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
			[]string{"plugin", "profile"}, n, by.plugin, by.profile)
	}
	for kind, n := range g.cached {
		send("cache_size", "[ALPHA] Number of nodes, pods, and assumed (bound) pods in the scheduler cache.", []string{"type"}, n, kind)
	}
}
