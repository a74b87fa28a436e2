package minikctl

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject returns a copy that shares nothing.
func (t *Trace) DeepCopyObject() runtime.Object {
	out := *t
	t.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Span.Causes = slices.Clone(t.Span.Causes)
	out.Span.Stages = slices.Clone(t.Span.Stages)
	return &out
}

// DeepCopyObject returns a copy that shares nothing.
func (l *TraceList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Trace, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Trace)
	}
	return &out
}

// DeepCopyObject returns a copy that shares nothing.
func (d *Decision) DeepCopyObject() runtime.Object {
	out := *d
	d.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Rejected = slices.Clone(d.Rejected)
	for i, r := range out.Rejected {
		out.Rejected[i].Reasons, out.Rejected[i].Nodes = slices.Clone(r.Reasons), slices.Clone(r.Nodes)
	}
	out.Scores = slices.Clone(d.Scores)
	for i, s := range out.Scores {
		out.Scores[i].Plugins = slices.Clone(s.Plugins)
	}
	out.Stages = slices.Clone(d.Stages)
	return &out
}

// DeepCopyObject returns a copy that shares nothing.
func (l *DecisionList) DeepCopyObject() runtime.Object {
	out := *l
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	out.Items = make([]Decision, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Decision)
	}
	return &out
}
