package scheduler

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

const maxListed = minikctl.MaxListed

// reporter sends what was decided to the API, in batches and away from the loop. When it is behind, reports are dropped
// and counted.
type reporter struct {
	client  client.Client
	clock   clock.Clock
	source  *clock.Source
	queue   chan *minikctl.Decision
	dropped atomic.Uint64
}

const (
	queuedReports = 4096
	batchReports  = 256
	batchEvery    = 50 * time.Millisecond // so that a burst makes few calls
	// When more pods than this are in line, a report holds only the best few scores.
	busyLine   = 64
	busyListed = 3
)

func newReporter(c client.Client, clk clock.Clock, src *clock.Source) *reporter {
	return &reporter{client: c, clock: clk, source: src, queue: make(chan *minikctl.Decision, queuedReports)}
}

// run sends reports until ctx ends.
func (r *reporter) run(ctx context.Context) {
	for {
		var batch []minikctl.Decision
		select {
		case <-ctx.Done():
			return
		case d := <-r.queue:
			batch = append(batch, *d)
		}
		if clock.Sleep(ctx, r.clock, batchEvery) != nil {
			return
		}
		for more := true; more && len(batch) < batchReports; {
			select {
			case d := <-r.queue:
				batch = append(batch, *d)
			default:
				more = false
			}
		}
		r.send(ctx, batch)
	}
}

// send makes a call for each namespace: a namespaced resource is created in one.
func (r *reporter) send(ctx context.Context, decisions []minikctl.Decision) {
	batches := map[string]*minikctl.DecisionList{}
	for _, d := range decisions {
		batch := batches[d.Namespace]
		if batch == nil {
			batch = &minikctl.DecisionList{}
			batch.SetGroupVersionKind(minikctl.GroupVersion.WithKind("DecisionList"))
			batches[d.Namespace] = batch
		}
		d.Name = d.Pod + "." + strconv.Itoa(d.Attempt) + "-" + r.source.Suffix(5)
		batch.Items = append(batch.Items, d)
	}
	for namespace, batch := range batches {
		to := client.Target{Resource: minikctl.Decisions, Namespace: namespace}
		if _, err := r.client.Create(ctx, to, batch, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
			r.dropped.Add(uint64(len(batch.Items)))
			slog.DebugContext(ctx, "decisions not reported", "err", err, "count", len(batch.Items))
		}
	}
}

func (r *reporter) add(d *minikctl.Decision) {
	select {
	case r.queue <- d:
	default:
		r.dropped.Add(1)
	}
}

// full reports whether another report would be dropped anyway, so that it need not be made.
func (r *reporter) full() bool {
	if len(r.queue) < cap(r.queue) {
		return false
	}
	r.dropped.Add(1)
	return true
}

func (r *reporter) scheduled(a *attempt, d *decision, waiting int) {
	if r.full() {
		return
	}
	listed := maxListed
	if waiting > busyLine {
		listed = busyListed
	}
	out := r.report(a, "Scheduled", "")
	out.Node = a.node
	out.Scores = d.scores(listed)
	d.describe(out)
	r.add(out)
}

func (r *reporter) turnedDown(a *attempt, d *decision, outcome, message string) {
	if r.full() {
		return
	}
	out := r.report(a, outcome, message)
	d.describe(out)
	r.add(out)
}

// failed reports a pod that had a node and could not be bound to it.
func (r *reporter) failed(a *attempt, outcome, message string) {
	out := r.report(a, outcome, message)
	out.Node = a.node
	r.add(out)
}

// gated reports a pod that a PreEnqueue plugin keeps from being tried.
func (r *reporter) gated(p *queued, message string) {
	r.add(r.report(&attempt{queued: p}, "Gated", message))
}

func (r *reporter) report(a *attempt, outcome, message string) *minikctl.Decision {
	pod := a.info.pod
	return &minikctl.Decision{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Labels: map[string]string{minikctl.PodLabel: pod.Name}},
		Pod:        pod.Name, PodUID: string(pod.UID), Profile: pod.Spec.SchedulerName, Attempt: a.attempts,
		Time: metav1.NewMicroTime(r.clock.Now()), Outcome: outcome, Message: message, Stages: a.stages,
	}
}

// describe fills in how many nodes there were and why some did not pass.
func (d *decision) describe(out *minikctl.Decision) {
	out.Nodes, out.Evaluated, out.Feasible = d.nodes, d.evaluated, d.feasible
	if d.told == nil {
		for _, g := range d.rejected() {
			r := minikctl.Rejection{Plugin: g.plugin, Reasons: g.reasons, Count: g.count}
			for _, i := range g.nodes {
				r.Nodes = append(r.Nodes, d.cluster.nodes[i].node.Name)
			}
			d.told = append(d.told, r)
		}
	}
	out.Rejected = d.told
}

// scores lists the best n nodes with what each plugin gave them.
func (d *decision) scores(n int) []minikctl.NodeScore {
	best := d.best.top(n)
	out := make([]minikctl.NodeScore, len(best))
	parts := make([]minikctl.PluginScore, len(best)*len(d.scorers))
	for k, i := range best {
		plugins := parts[k*len(d.scorers) : (k+1)*len(d.scorers)]
		for s, scorer := range d.scorers {
			plugins[s] = minikctl.PluginScore{Plugin: scorer.Name(), Score: d.final[s][i], Weight: scorer.weight}
		}
		out[k] = minikctl.NodeScore{Node: d.cluster.nodes[i].node.Name, Total: d.totals[i], Plugins: plugins}
	}
	return out
}
