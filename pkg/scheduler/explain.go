package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kube-scheduler/framework"
)

// errNoNodes is the error of attempts in a cluster without nodes.
var errNoNodes = errors.New("no nodes available to schedule pods")

// message returns why the pod is unschedulable, as in the FailedScheduling event.
func (d *decision) message() string {
	switch {
	case d.status == nil:
		return ""
	case d.status.IsError() || d.nodes == 0:
		return d.status.AsError().Error()
	}
	return fitMessage(d.nodes, d.preFilterMessage, d.counts(), d.postFilterMessage)
}

// fitMessage formats how many nodes were rejected for each reason, sorted by the text.
func fitMessage(nodes int, early string, counts map[string]int, after string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "0/%v nodes are available:", nodes)
	if early == "" {
		reasons := make([]string, 0, len(counts))
		for reason, n := range counts {
			reasons = append(reasons, fmt.Sprintf("%v %v", n, reason))
		}
		slices.Sort(reasons)
		early = strings.Join(reasons, ", ")
	}
	if early != "" {
		b.WriteString(" " + early + ".")
	}
	if after != "" {
		b.WriteString(" " + after)
	}
	return b.String()
}

func (d *decision) counts() map[string]int {
	counts := map[string]int{}
	for _, r := range d.rejected() {
		for _, reason := range r.reasons {
			counts[reason] += r.count
		}
	}
	if left := d.nodes - d.evaluated; left > 0 && d.excluded != nil {
		for _, reason := range d.excluded.Reasons() {
			counts[reason] += left
		}
	}
	return counts
}

// rejection is the set of nodes that one plugin rejected for the same reasons.
type rejection struct {
	plugin  string
	reasons []string
	nodes   []int // the indexes of the first ones
	count   int
}

// rejected groups the nodes that Filter rejected.
func (e *evaluation) rejected() []rejection {
	if e.rejections != nil {
		return e.rejections
	}
	out, at := []rejection{}, map[string]int{}
	var last *framework.Status
	lastAt := 0
	for i, v := range e.statuses {
		if v == nil {
			continue
		}
		if v != last {
			reasons := v.Reasons()
			key := v.Plugin() + "\x00" + strings.Join(reasons, "\x00")
			k, ok := at[key]
			if !ok {
				k = len(out)
				at[key] = k
				out = append(out, rejection{plugin: v.Plugin(), reasons: reasons})
			}
			last, lastAt = v, k
		}
		r := &out[lastAt]
		if r.count++; len(r.nodes) < maxListed {
			r.nodes = append(r.nodes, i)
		}
	}
	e.rejections = out
	return out
}

// rejectors returns the plugins that rejected the pod, and those that returned Pending.
func (d *decision) rejectors() (unschedulable, pending sets.Set[string]) {
	unschedulable, pending = sets.New[string](), sets.New[string]()
	note := func(s *framework.Status) {
		switch {
		case s == nil || s.Plugin() == "":
		case s.Code() == framework.Pending:
			pending.Insert(s.Plugin())
		case s.IsRejected():
			unschedulable.Insert(s.Plugin())
		}
	}
	note(d.status)
	var last *framework.Status
	for _, v := range d.statuses {
		if v != nil && v != last {
			note(v)
			last = v
		}
	}
	return unschedulable, pending
}

// postFilter runs the PostFilter plugins, which may nominate the pod to a node.
func (d *decision) postFilter(ctx context.Context, t *tracker, p *profile, cluster *snapshot, pod *corev1.Pod) {
	var reasons []string
	d.state.Delete(PreemptionState) // of an earlier pod with this evaluation
	d.state.Delete(preemptionCalls)
	began := t.times.now()
	var status *framework.Status
	for _, plugin := range p.postFilter {
		t.enter(plugin.site)
		var result *framework.PostFilterResult
		result, status = plugin.plugin.PostFilter(ctx, d.state, pod, statusReader{d.evaluation, cluster})
		t.returned(plugin.site, status)
		t.leave()
		d.preempts = d.preempts || plugin.name == "DefaultPreemption"
		if result != nil && (status.IsSuccess() || status.IsRejected() && result.Mode() != framework.ModeNoop) {
			d.nominating = result.NominatingInfo
		}
		if status.IsSuccess() {
			reasons = nil
			break
		}
		if !status.IsRejected() {
			reasons = append(reasons, plugin.failed(status).Message())
			break
		}
		reasons = append(reasons, status.Reasons()...)
		if status.Code() == framework.UnschedulableAndUnresolvable {
			break
		}
	}
	if len(p.postFilter) > 0 {
		t.times.ran("PostFilter", began, status)
	}
	d.postFilterMessage = strings.Join(reasons, ", ")
	d.preemption, d.preemptionCalls = preemptionIn(d.state), callsIn(d.state)
}

// statusReader gives PostFilter plugins the status of each node. It is a framework.NodeToStatusReader.
type statusReader struct {
	e       *evaluation
	cluster *snapshot
}

var _ framework.NodeToStatusReader = statusReader{}

// Get returns the status of a node. Nodes that were not filtered have the status that rejected the pod as a whole.
func (r statusReader) Get(name string) *framework.Status {
	if n, ok := r.cluster.byName[name]; ok && n.node != nil && r.e.filtered != nil {
		if at := r.e.indexOf(n); at >= 0 && r.e.filtered[at] {
			return r.e.statuses[at]
		}
	}
	switch {
	case r.e.failure != nil:
		return r.e.failure
	case r.e.excluded != nil:
		return r.e.excluded
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable)
}

// NodesForStatusCode returns the nodes whose status has that code.
func (r statusReader) NodesForStatusCode(lister framework.NodeInfoLister, code framework.Code) ([]framework.NodeInfo, error) {
	nodes, err := lister.List()
	if err != nil {
		return nil, err
	}
	var out []framework.NodeInfo
	for _, n := range nodes {
		if s := r.Get(n.Node().Name); s.Code() == code {
			out = append(out, n)
		}
	}
	return out, nil
}
