package virtual

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// Rows returns the rows of the virtual resources.
func Rows() []objects.Resource {
	return []objects.Resource{objects.Row(decisions), objects.Row(traces)}
}

func names(kind, plural string) objects.Names {
	return objects.Names{Group: minikctl.GroupVersion.Group, Version: minikctl.GroupVersion.Version, Kind: kind, Plural: plural}
}

var traces = objects.Def[*minikctl.Trace]{
	Names:   names("Trace", "traces"),
	New:     func() *minikctl.Trace { return new(minikctl.Trace) },
	NewList: func() runtime.Object { return new(minikctl.TraceList) },
	Verbs:   []string{"get", "list", "watch"},
	Columns: []objects.Column[*minikctl.Trace]{
		{Name: "Revision", Format: "name", Description: "The revision that the write made.",
			Cell: func(t *minikctl.Trace, _ time.Time) any { return t.Name }},
		{Name: "Age", Description: "How long ago the write was committed.",
			Cell: func(t *minikctl.Trace, now time.Time) any { return objects.Age(t.CreationTimestamp, now) }},
		{Name: "Actor", Description: "The program that wrote; the user, where the request names no program.", Cell: actor},
		{Name: "Verb", Description: "What was done.",
			Cell: func(t *minikctl.Trace, _ time.Time) any { return t.Span.Verb }},
		{Name: "Object", Description: "What it was done to.", Cell: object},
		{Name: "Causes", Description: "The revisions that caused the write.", Cell: causes},
		{Name: "Took", Description: "How long all stages took together.", Cell: took},
		{Name: "Note", Description: "What changed.",
			Cell: func(t *minikctl.Trace, _ time.Time) any { return t.Span.Note }},
		{Name: "User", Wide: true, Description: "The user that wrote.",
			Cell: func(t *minikctl.Trace, _ time.Time) any { return t.Span.Actor }},
		{Name: "Stages", Wide: true, Description: "How long each stage took.", Cell: stages},
	},
}

func actor(t *minikctl.Trace, _ time.Time) any {
	if t.Span.Agent != "" {
		return t.Span.Agent
	}
	return t.Span.Actor
}

func object(t *minikctl.Trace, _ time.Time) any {
	s := t.Span
	name := s.Resource
	if s.Sub != "" {
		name += "/" + s.Sub
	}
	if s.Namespace != "" {
		return name + " " + s.Namespace + "/" + s.Name
	}
	return name + " " + s.Name
}

func causes(t *minikctl.Trace, _ time.Time) any {
	if len(t.Span.Causes) == 0 {
		return "<none>"
	}
	out := make([]string, 0, len(t.Span.Causes))
	for _, r := range t.Span.Causes {
		out = append(out, strconv.FormatUint(r, 10))
	}
	return strings.Join(out, ",")
}

func took(t *minikctl.Trace, _ time.Time) any {
	var first, last time.Time
	for _, s := range t.Span.Stages {
		if first.IsZero() || s.Start.Before(first) {
			first = s.Start
		}
		if end := s.Start.Add(s.Took); end.After(last) {
			last = end
		}
	}
	return short(last.Sub(first))
}

func stages(t *minikctl.Trace, _ time.Time) any {
	out := make([]string, 0, len(t.Span.Stages))
	for _, s := range t.Span.Stages {
		out = append(out, s.Name+" "+short(s.Took))
	}
	return strings.Join(out, ", ")
}

// short formats a duration with about three digits.
func short(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return duration.HumanDuration(d)
}

var decisions = objects.Def[*minikctl.Decision]{
	Names:   names("Decision", "decisions"),
	New:     func() *minikctl.Decision { return new(minikctl.Decision) },
	NewList: func() runtime.Object { return new(minikctl.DecisionList) },
	Verbs:   []string{"create", "get", "list", "watch"},
	Columns: []objects.Column[*minikctl.Decision]{
		objects.NameColumn[*minikctl.Decision](),
		{Name: "Pod", Description: "The pod of the attempt.",
			Cell: func(d *minikctl.Decision, _ time.Time) any { return d.Pod }},
		{Name: "Attempt", Type: "integer", Description: "Which attempt it was, from 1.",
			Cell: func(d *minikctl.Decision, _ time.Time) any { return int64(d.Attempt) }},
		{Name: "Outcome", Description: "Scheduled, Unschedulable, Gated or Error.",
			Cell: func(d *minikctl.Decision, _ time.Time) any { return d.Outcome }},
		{Name: "Node", Description: "The node that was chosen.",
			Cell: func(d *minikctl.Decision, _ time.Time) any {
				if d.Node == "" {
					return "<none>"
				}
				return d.Node
			}},
		{Name: "Feasible", Description: "The number of nodes that passed the filters, of all nodes.",
			Cell: func(d *minikctl.Decision, _ time.Time) any {
				return strconv.Itoa(d.Feasible) + "/" + strconv.Itoa(d.Nodes)
			}},
		{Name: "Message", Description: "Why no node was chosen.",
			Cell: func(d *minikctl.Decision, _ time.Time) any { return d.Message }},
		{Name: "Age", Description: "How long ago it was decided.",
			Cell: func(d *minikctl.Decision, now time.Time) any { return objects.Age(d.CreationTimestamp, now) }},
		{Name: "Took", Wide: true, Description: "How long the attempt took.",
			Cell: func(d *minikctl.Decision, _ time.Time) any { return short(d.Since()) }},
		{Name: "Profile", Wide: true, Description: "The scheduler's profile.",
			Cell: func(d *minikctl.Decision, _ time.Time) any { return d.Profile }},
	},
}
