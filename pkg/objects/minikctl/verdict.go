package minikctl

import (
	"slices"
	"strings"
)

// Verdict is what a decision says about one node: whether it passed, and what each plugin returned for it.
type Verdict struct {
	Node    string          `json:"node"`
	Outcome string          `json:"outcome"` // Passed, Rejected, NotEvaluated or NotRecorded
	Reason  string          `json:"reason,omitempty"`
	Chosen  bool            `json:"chosen,omitempty"`
	Plugins []PluginVerdict `json:"plugins,omitempty"`
	Total   *int64          `json:"total,omitempty"` // the sum of the weighted scores
}

// PluginVerdict is what a plugin returned for a node at an extension point.
type PluginVerdict struct {
	Point      string `json:"point"` // PreFilter (it rejected the pod on all nodes), Filter or Score
	Plugin     string `json:"plugin"`
	Outcome    string `json:"outcome"` // Passed, Rejected, Skipped, Scored or NotEvaluated
	Reason     string `json:"reason,omitempty"`
	Raw        *int64 `json:"raw,omitempty"`
	Normalised *int64 `json:"normalised,omitempty"`
	Weight     int64  `json:"weight,omitempty"`
	Weighted   *int64 `json:"weighted,omitempty"`
}

// The outcomes of verdicts.
const (
	Passed       = "Passed"
	Rejected     = "Rejected"
	Skipped      = "Skipped"
	Scored       = "Scored"
	NotEvaluated = "NotEvaluated"
	NotRecorded  = "NotRecorded"
)

// Listed returns the names of the nodes that the decision lists, sorted.
func (d *Decision) Listed() []string {
	var out []string
	for _, r := range d.Rejected {
		out = append(out, r.Nodes...)
	}
	for _, s := range d.Scores {
		out = append(out, s.Nodes...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Verdict returns what the decision says about a node. A decision lists only some nodes of a large cluster: the outcome of another one is
// NotRecorded, unless it is that of all.
func (d *Decision) Verdict(node string) Verdict {
	v := Verdict{Node: node, Chosen: node == d.Node && node != "", Outcome: NotRecorded}
	if d.RejectedBy != "" {
		v.Outcome, v.Reason = Rejected, d.Message
		v.Plugins = append(v.Plugins, PluginVerdict{Point: "PreFilter", Plugin: d.RejectedBy, Outcome: Rejected, Reason: d.Message})
		return v
	}
	v.skipped("Filter", d.SkippedFilters)
	if r := d.rejection(node); r != nil {
		v.Outcome, v.Reason = Rejected, strings.Join(append([]string{strings.Join(r.Reasons, ", ")}, r.Details...), ": ")
		v.filtered(d.Filters, r.Plugin)
		return v
	}
	scored := 0
	for _, s := range d.Scores {
		scored += len(s.Nodes)
		if slices.Contains(s.Nodes, node) {
			v.Outcome, v.Total = Passed, &s.Total
			v.filtered(d.Filters, "")
			v.scored(s.Plugins)
			v.skipped("Score", d.SkippedScores)
			return v
		}
	}
	rejected := 0
	for _, r := range d.Rejected {
		rejected += r.Count - len(r.Nodes)
	}
	if rejected == 0 && scored == d.Feasible && d.Evaluated < d.Nodes {
		v.Outcome, v.Reason = NotEvaluated, "enough nodes passed before it was its turn (percentageOfNodesToScore), or the pod was nominated to another one"
		if len(d.Excluded) > 0 {
			v.Reason = strings.Join(d.Excluded, ", ")
		}
		for _, plugin := range d.Filters {
			v.Plugins = append(v.Plugins, PluginVerdict{Point: "Filter", Plugin: plugin, Outcome: NotEvaluated, Reason: v.Reason})
		}
	}
	return v
}

// rejection returns the rejection that lists a node, nil without one.
func (d *Decision) rejection(node string) *Rejection {
	for i := range d.Rejected {
		if slices.Contains(d.Rejected[i].Nodes, node) {
			return &d.Rejected[i]
		}
	}
	return nil
}

// filtered adds the verdicts of the Filter plugins up to the one that rejected the node, and those after it as not evaluated.
func (v *Verdict) filtered(plugins []string, by string) {
	done := false
	for _, plugin := range plugins {
		p := PluginVerdict{Point: "Filter", Plugin: plugin, Outcome: Passed}
		switch {
		case done:
			p.Outcome, p.Reason = NotEvaluated, by+" rejected the node before"
		case plugin == by:
			p.Outcome, p.Reason, done = Rejected, v.Reason, true
		}
		v.Plugins = append(v.Plugins, p)
	}
}

// skipped adds the plugins that skipped the pod.
func (v *Verdict) skipped(point string, plugins []string) {
	for _, plugin := range plugins {
		v.Plugins = append(v.Plugins, PluginVerdict{Point: point, Plugin: plugin, Outcome: Skipped, Reason: "the plugin has nothing to do for this pod"})
	}
}

func (v *Verdict) scored(scores []PluginScore) {
	for _, s := range scores {
		normalised := s.Score
		if s.Weight != 0 {
			normalised /= s.Weight
		}
		v.Plugins = append(v.Plugins, PluginVerdict{Point: "Score", Plugin: s.Plugin, Outcome: Scored, Raw: &s.Raw, Normalised: &normalised, Weight: s.Weight, Weighted: &s.Score})
	}
}
