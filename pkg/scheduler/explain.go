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

// errNoNodes is why a pod waits in a cluster without nodes.
var errNoNodes = errors.New("no nodes available to schedule pods")

// message says why there is no node, in the words of the FailedScheduling event.
func (d *decision) message() string {
	switch {
	case d.status == nil:
		return ""
	case d.status.IsError() || d.nodes == 0:
		return d.status.AsError().Error()
	}
	return fitMessage(d.nodes, d.early, d.counts(), d.after)
}

// fitMessage words why no node takes a pod: how often which reason was given, in order of the text.
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
	if left := d.nodes - d.evaluated; left > 0 && d.absent != nil {
		for _, reason := range d.absent.Reasons() {
			counts[reason] += left
		}
	}
	return counts
}

// rejection is the nodes that the same plugin turned down for the same reasons.
type rejection struct {
	plugin  string
	reasons []string
	nodes   []int // the first of them
	count   int
}

// rejected groups the nodes that did not pass.
func (e *evaluation) rejected() []rejection {
	if e.rejections != nil {
		return e.rejections
	}
	out, at := []rejection{}, map[string]int{}
	var last *framework.Status
	lastAt := 0
	for i, v := range e.verdicts {
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

// blockers returns the plugins that turned the pod down, and those that only want it to wait for something.
func (d *decision) blockers() (unschedulable, pending sets.Set[string]) {
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
	for _, v := range d.verdicts {
		if v != nil && v != last {
			note(v)
			last = v
		}
	}
	return unschedulable, pending
}

// postFilter gives the PostFilter plugins their chance to make room.
func (d *decision) postFilter(ctx context.Context, p *profile, cluster *snapshot, pod *corev1.Pod) {
	var reasons []string
	for _, plugin := range p.postFilter {
		_, status := plugin.PostFilter(ctx, d.state, pod, verdictReader{d.evaluation, cluster}) // nominations are not kept
		if status.IsSuccess() {
			reasons = nil
			break
		}
		if !status.IsRejected() {
			reasons = append(reasons, broken("PostFilter", plugin, status).Message())
			break
		}
		reasons = append(reasons, status.Reasons()...)
	}
	d.after = strings.Join(reasons, ", ")
}

// verdictReader shows PostFilter plugins what each node was told. It is a framework.NodeToStatusReader.
type verdictReader struct {
	e       *evaluation
	cluster *snapshot
}

var _ framework.NodeToStatusReader = verdictReader{}

// Get returns what a node was told; those that were not looked at got what turned the pod down as a whole.
func (r verdictReader) Get(name string) *framework.Status {
	if n, ok := r.cluster.byName[name]; ok && n.node != nil && r.e.judged != nil && r.e.judged[n.index] {
		return r.e.verdicts[n.index]
	}
	switch {
	case r.e.failure != nil:
		return r.e.failure
	case r.e.absent != nil:
		return r.e.absent
	}
	return framework.NewStatus(framework.UnschedulableAndUnresolvable)
}

// NodesForStatusCode returns the nodes that were told a status of that code.
func (r verdictReader) NodesForStatusCode(lister framework.NodeInfoLister, code framework.Code) ([]framework.NodeInfo, error) {
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
