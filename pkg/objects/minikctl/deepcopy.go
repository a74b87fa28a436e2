package minikctl

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (t *Trace) DeepCopyObject() runtime.Object {
	out := *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Span.Causes = slices.Clone(t.Span.Causes)
	out.Span.Stages = slices.Clone(t.Span.Stages)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *TraceList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Trace, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Trace)
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (d *Decision) DeepCopyObject() runtime.Object {
	out := *d
	d.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Rejected = slices.Clone(d.Rejected)
	for i, r := range out.Rejected {
		out.Rejected[i].Reasons, out.Rejected[i].Details, out.Rejected[i].Nodes = slices.Clone(r.Reasons), slices.Clone(r.Details), slices.Clone(r.Nodes)
	}
	out.Filters, out.Excluded = slices.Clone(d.Filters), slices.Clone(d.Excluded)
	out.SkippedFilters, out.SkippedScores = slices.Clone(d.SkippedFilters), slices.Clone(d.SkippedScores)
	out.Extenders = slices.Clone(d.Extenders)
	out.Scores = slices.Clone(d.Scores)
	for i, s := range out.Scores {
		out.Scores[i].Nodes, out.Scores[i].Plugins = slices.Clone(s.Nodes), slices.Clone(s.Plugins)
	}
	if d.Preemption != nil {
		p := *d.Preemption
		p.Victims = slices.Clone(p.Victims)
		out.Preemption = &p
	}
	if d.Group != nil {
		g := *d.Group
		g.Blocking, g.Placements = slices.Clone(g.Blocking), slices.Clone(g.Placements)
		for i, p := range g.Placements {
			g.Placements[i].Plugins = slices.Clone(p.Plugins)
			if p.Blocking != nil {
				b := *p.Blocking
				g.Placements[i].Blocking = &b
			}
		}
		out.Group = &g
	}
	out.Stages, out.PluginTimes = slices.Clone(d.Stages), slices.Clone(d.PluginTimes)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *DecisionList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Decision, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Decision)
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (c *CorruptObject) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *CorruptObjectList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]CorruptObject, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*CorruptObject)
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (c *Clock) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Next, out.Busy = c.Next.DeepCopy(), slices.Clone(c.Busy)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *ClockList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Clock, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Clock)
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (a *ClockAdvance) DeepCopyObject() runtime.Object {
	out := *a
	a.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.To = a.To.DeepCopy()
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *ClockAdvanceList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]ClockAdvance, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*ClockAdvance)
	}
	return &out
}
