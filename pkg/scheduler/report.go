package scheduler

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

const maxListed = minikctl.MaxListed

// reporter writes Decisions to the API in batches, beside the loop. When its queue is full, decisions are dropped and
// counted.
type reporter struct {
	client  client.Client
	clock   clock.Clock
	source  *clock.Source
	queue   chan *minikctl.Decision
	off     bool         // decisions are not recorded
	unsent  atomic.Int64 // of the queue and the present batch; only counted down in turns
	dropped atomic.Uint64

	config    atomic.Pointer[minikctl.SchedulerConfig] // the latest report
	newConfig chan struct{}
}

const (
	queuedReports = 4096
	batchReports  = 256
	batchEvery    = 50 * time.Millisecond // so that a burst needs few calls
	// While the activeQ holds more pods than this, a decision lists only the best few scores.
	busyQueue  = 64
	busyListed = 3
)

func newReporter(c client.Client, clk clock.Clock, src *clock.Source) *reporter {
	return &reporter{client: c, clock: clk, source: src, queue: make(chan *minikctl.Decision, queuedReports), newConfig: make(chan struct{}, 1)}
}

// run sends reports until ctx ends.
func (r *reporter) run(ctx context.Context) {
	if clock.InTurns(r.clock) {
		r.runInTurns(ctx)
		return
	}
	for {
		var batch []minikctl.Decision
		select {
		case <-ctx.Done():
			return
		case d := <-r.queue:
			batch = append(batch, *d)
		}
		if clock.Sleep(ctx, clock.Machine(r.clock), batchEvery) != nil {
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

// runInTurns is run on a clock with turns: in each, it sends all reports that are queued.
func (r *reporter) runInTurns(ctx context.Context) {
	ctx, work := clock.Begin(ctx, r.clock, "decisions of the scheduler")
	defer work.End()
	for ctx.Err() == nil {
		var first *minikctl.Decision
		work.Idle(func() bool { return r.unsent.Load() > 0 }, func() {
			select {
			case <-ctx.Done():
			case first = <-r.queue:
			}
		})
		if first == nil {
			continue
		}
		turn, end := clock.TakeTurn(ctx, r.clock, clock.Rank{Part: "decisions of the scheduler"})
		batch := []minikctl.Decision{*first}
		for len(r.queue) > 0 {
			batch = append(batch, *<-r.queue)
		}
		r.send(turn, batch)
		r.unsent.Add(-int64(len(batch)))
		end()
	}
}

// send makes one call for each namespace, since each create is namespaced.
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
	for _, namespace := range slices.Sorted(maps.Keys(batches)) {
		batch := batches[namespace]
		to := client.Target{Resource: minikctl.Decisions, Namespace: namespace}
		if _, err := r.client.Create(ctx, to, batch, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
			r.dropped.Add(uint64(len(batch.Items)))
			slog.DebugContext(ctx, "decisions not reported", "err", err, "count", len(batch.Items))
		}
	}
}

func (r *reporter) add(d *minikctl.Decision) {
	r.unsent.Add(1)
	select {
	case r.queue <- d:
	default:
		r.unsent.Add(-1)
		r.dropped.Add(1)
	}
}

// full reports whether the queue is full, so that building a report would be useless.
func (r *reporter) full() bool {
	if r.off {
		return true
	}
	if len(r.queue) < cap(r.queue) {
		return false
	}
	r.dropped.Add(1)
	return true
}

// scheduled makes the report of a pod that has a node. sendScheduled sends it.
func (r *reporter) scheduled(a *attempt, d *decision, waiting int) {
	if r.full() {
		return
	}
	listed := maxListed
	if waiting > busyQueue {
		listed = busyListed
	}
	out := r.report(a, "Scheduled", "")
	out.Node = a.node
	out.Scores = d.scores(listed)
	d.describe(out)
	a.report = out
}

// sendScheduled sends the report that the pod is scheduled, with the times of plugins so far, unless it was sent before.
func (r *reporter) sendScheduled(a *attempt) {
	out := a.report
	if out == nil {
		return
	}
	a.report = nil
	out.PluginTimes = a.times
	r.add(out)
}

func (r *reporter) unschedulable(a *attempt, d *decision, outcome, message string) {
	if r.full() {
		return
	}
	out := r.report(a, outcome, message)
	out.Preemption = d.preemption.reported()
	d.describe(out)
	r.add(out)
}

// draft returns the report of a pod whose outcome depends on its PodGroup. A later pod may change the evaluation, so what the report has of it
// is copied now.
func (r *reporter) draft(a *attempt, d *decision) *minikctl.Decision {
	out := r.report(a, "", "")
	out.Preemption = d.preemption.reported()
	if d.node != nil {
		out.Scores = d.scores(busyListed)
	}
	d.describe(out)
	return out
}

// finish completes a draft and reports it. node is "" if the pod has none; for one with a node, sendScheduled sends the report.
func (r *reporter) finish(a *attempt, draft *minikctl.Decision, outcome, node, message string) {
	if r.full() {
		return
	}
	draft.Outcome, draft.Node, draft.Message, draft.Stages, draft.Group, draft.PluginTimes = outcome, node, message, a.stages, a.reported, a.times
	if node != "" {
		a.report = draft
		return
	}
	r.add(draft)
}

// failed reports a pod whose binding to its node failed.
func (r *reporter) failed(a *attempt, outcome, message string) {
	if r.off {
		return
	}
	r.sendScheduled(a)
	out := r.report(a, outcome, message)
	out.Node, out.Extenders = a.node, a.calls
	r.add(out)
}

// gated reports a pod that a PreEnqueue plugin of the profile gates.
func (r *reporter) gated(p *queuedPodInfo, prof *profile, message string) {
	if r.off {
		return
	}
	r.add(r.report(&attempt{queuedPodInfo: p, profile: prof}, "Gated", message))
}

func (r *reporter) report(a *attempt, outcome, message string) *minikctl.Decision {
	pod := a.info.pod
	out := &minikctl.Decision{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Labels: map[string]string{minikctl.PodLabel: pod.Name}},
		Pod:        pod.Name, PodUID: string(pod.UID), Profile: pod.Spec.SchedulerName, Attempt: a.attempts,
		Time: metav1.NewMicroTime(r.clock.Now()), Outcome: outcome, Message: message, Stages: a.stages, WokenBy: a.woken, PluginTimes: a.times, Group: a.reported,
	}
	if a.profile != nil {
		out.ConfigGeneration = a.profile.setup.generation
	}
	return out
}

// describe sets the number of nodes and the reasons of those that were rejected.
func (d *decision) describe(out *minikctl.Decision) {
	out.Nodes, out.Evaluated, out.Feasible = d.nodes, d.evaluated, d.feasible
	out.Rejected = d.reported
	out.Extenders = slices.Concat(d.calls, d.preemptionCalls)
	if d.failure != nil && d.filters == nil {
		out.RejectedBy = d.failure.Plugin()
	}
	if d.excluded != nil && d.evaluated < d.nodes {
		out.Excluded = d.excluded.Reasons()
	}
	d.setNames()
	out.Filters, out.SkippedFilters, out.SkippedScores = d.filterNames, d.skippedFilters, d.skippedScores
}

// setNames sets the names of the plugins at its first call.
func (e *evaluation) setNames() {
	if e.filterNames != nil || e.filters == nil {
		return
	}
	e.filterNames = make([]string, len(e.filters))
	for i, f := range e.filters {
		e.filterNames[i] = f.name
	}
	e.filterNames = append(e.filterNames, e.extenders...)
	e.skippedFilters, e.skippedScores = sets.List(e.state.GetSkipFilterPlugins()), sets.List(e.state.GetSkipScorePlugins())
}

// report groups the rejected nodes by reason and by the detail that the plugin gives.
func (d *decision) report(t *tracker, p *profile, pod *corev1.Pod) {
	if d.reported != nil {
		return
	}
	for _, g := range d.rejected() {
		if _, explains := p.explainers[g.plugin]; explains {
			d.reported = append(d.reported, d.explained(t, p, pod, g)...)
			continue
		}
		r := minikctl.Rejection{Plugin: g.plugin, Reasons: g.reasons, Count: g.count}
		if len(g.reasons) == 0 && slices.Contains(d.extenders, g.plugin) {
			r.Details = []string{"the extender left the node out of its response, without a message"}
		}
		for _, i := range g.nodes {
			r.Nodes = append(r.Nodes, d.candidates[i].node.Name)
		}
		d.reported = append(d.reported, r)
	}
}

// Bounds of the details by which the nodes of one reason are grouped: how many of them, and of how many nodes the plugin is asked. The other
// nodes are one group without a detail.
const (
	maxDetails   = 20
	maxExplained = 8 * maxListed
)

// explained groups the nodes that a plugin rejected for the same reasons by the plugin's detail about each.
func (d *decision) explained(t *tracker, p *profile, pod *corev1.Pod, g rejection) []minikctl.Rejection {
	var out []minikctl.Rejection
	at := map[string]int{}
	explained := 0
	for i, s := range d.statuses {
		if s == nil || s.Plugin() != g.plugin || !slices.Equal(s.Reasons(), g.reasons) {
			continue
		}
		detail := ""
		if explained < maxExplained {
			explained++
			detail = p.explain(t, g.plugin, pod, d.candidates[i])
		}
		k, ok := at[detail]
		if !ok && len(at) >= maxDetails {
			detail = ""
			k, ok = at[detail]
		}
		if !ok {
			k = len(out)
			at[detail] = k
			r := minikctl.Rejection{Plugin: g.plugin, Reasons: g.reasons}
			if detail != "" {
				r.Details = []string{detail}
			}
			out = append(out, r)
		}
		r := &out[k]
		if r.Count++; len(r.Nodes) < maxListed {
			r.Nodes = append(r.Nodes, d.candidates[i].node.Name)
		}
	}
	return out
}

// explain returns the property of a node for which a plugin, an Explainer, rejected the pod.
func (p *profile) explain(t *tracker, plugin string, pod *corev1.Pod, node *nodeInfo) string {
	x := p.explainers[plugin]
	t.enter(x.site)
	defer t.leave()
	return x.plugin.Explain(pod, node)
}

// scores lists the best n nodes, including the chosen one, with the scores of each plugin.
func (d *decision) scores(n int) []minikctl.NodeScores {
	best := d.best.top(n)
	if chosen := d.indexOf(d.node); !slices.Contains(best, chosen) {
		best[len(best)-1] = chosen // one of more than n equally good nodes
	}
	var out []minikctl.NodeScores
	var first []int // the first node of each element of out
	for _, i := range best {
		at := len(out) - 1
		for at >= 0 && out[at].Total == d.totals[i] && !d.scoredAlike(i, first[at]) {
			at--
		}
		if at < 0 || out[at].Total != d.totals[i] {
			at = len(out)
			out, first = append(out, minikctl.NodeScores{Total: d.totals[i], Plugins: d.pluginScores(i)}), append(first, i)
		}
		out[at].Nodes = append(out[at].Nodes, d.candidates[i].node.Name)
	}
	return out
}

// scoredAlike reports whether each plugin gave two nodes the same score.
func (d *decision) scoredAlike(i, j int) bool {
	for s := range d.scorers {
		if d.raw[s][i] != d.raw[s][j] || d.final[s][i] != d.final[s][j] {
			return false
		}
	}
	return true
}

// pluginScores returns the scores of a node by each Score plugin.
func (d *decision) pluginScores(i int) []minikctl.PluginScore {
	out := make([]minikctl.PluginScore, len(d.scorers))
	for s, scorer := range d.scorers {
		out[s] = minikctl.PluginScore{Plugin: scorer.name, Raw: d.raw[s][i], Score: d.final[s][i], Weight: scorer.weight}
	}
	return out
}
