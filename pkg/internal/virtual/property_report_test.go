package virtual_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/objects"
)

// remembered is how many changes and failed writes a report may look back on, and reported how many it has of each.
const remembered, reported = 3000, 60

// remember appends to a list that keeps its last entries.
func remember[E any](list []E, e E) []E {
	if len(list) >= 2*remembered {
		list = slices.Clone(list[len(list)-remembered:])
	}
	return append(list, e)
}

// report returns what is known about the owner of an object: its pods, and its sets with their pods, after a change, their changes until then, and the
// failed writes to them.
func (w *world) report(c change, f *faults) string {
	root := c.either()
	for owner := w.controllerOf(root); owner != nil; owner = w.controllerOf(root) {
		root = owner
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%T %s: %s\n", root, root.GetName(), w.state(root, c, f))
	for _, o := range w.ownedBy(root) {
		fmt.Fprintf(&out, "  %T %s: %s\n", o, o.GetName(), w.state(o, c, f))
		for _, p := range w.ownedBy(o) {
			fmt.Fprintf(&out, "    %T %s: %s\n", p, p.GetName(), w.state(p, c, f))
		}
	}
	family := func(name string) bool { return name == root.GetName() || strings.HasPrefix(name, root.GetName()+"-") }
	var lines []string
	for _, past := range w.recent {
		if family(past.either().GetName()) {
			lines = append(lines, past.String()+w.deletion(past, f))
		}
	}
	fmt.Fprintf(&out, "their changes:\n%s\n", strings.Join(last(lines), "\n"))
	lines = nil
	for _, past := range f.failures {
		if family(past.name) {
			lines = append(lines, past.String())
		}
	}
	fmt.Fprintf(&out, "their failed writes:\n%s", strings.Join(last(lines), "\n"))
	return out.String()
}

func last(lines []string) []string { return lines[max(0, len(lines)-reported):] }

// ownedBy returns the sets and pods that an object controls, by name.
func (w *world) ownedBy(owner objects.Object) []objects.Object {
	var out []objects.Object
	for _, o := range w.owners {
		if w.controllerOf(o) == owner {
			out = append(out, o)
		}
	}
	for _, p := range w.podsOf(func(p *corev1.Pod) bool { return w.controllerOf(p) == owner }) {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b objects.Object) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// state describes an object as it is at a change.
func (w *world) state(obj objects.Object, c change, f *faults) string {
	if p, ok := obj.(*corev1.Pod); ok {
		return describePod(p, c.at) + w.deletion(change{obj: p}, f)
	}
	b := w.bounds[obj.GetUID()]
	return describe(obj) + progress(obj) + fmt.Sprintf("; bound: least %d most %d rolling %t disrupted %d", b.least, b.most, b.rolling, b.disrupted)
}

// deletion names the component that has deleted a pod.
func (w *world) deletion(c change, f *faults) string {
	if p, ok := c.obj.(*corev1.Pod); !ok || p.DeletionTimestamp == nil {
		return ""
	}
	return ", by " + f.deleter[c.obj.GetUID()]
}

// progress describes the status of a Deployment or a ReplicaSet.
func progress(obj objects.Object) string {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		s := o.Status
		return fmt.Sprintf("; generation %d, status: generation %d, %d pods, %d updated, %d ready, %d available", o.Generation, s.ObservedGeneration, s.Replicas,
			s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas)
	case *appsv1.ReplicaSet:
		s := o.Status
		return fmt.Sprintf("; generation %d, status: generation %d, %d pods, %d ready, %d available", o.Generation, s.ObservedGeneration, s.Replicas, s.ReadyReplicas,
			s.AvailableReplicas)
	}
	return ""
}

// failedWrite is a write for which a component got an error.
type failedWrite struct {
	after    time.Duration // virtual time since the start
	account  string
	verb     string
	name     string // of the object; of a new one, its prefix
	resource string
	done     bool // it was done, and only its response was lost
	revision string
}

func (w failedWrite) String() string {
	what := "refused"
	if w.done {
		what = "done with revision " + w.revision + ", its response was lost"
	}
	return fmt.Sprintf("%s %s: %s %s %s: %s", w.after, w.account, w.verb, w.resource, w.name, what)
}

// note records a failed write.
func (f *faults) note(w failedWrite) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.clock != nil {
		w.after = f.clock.Since(virtual.Began)
	}
	f.failures = remember(f.failures, w)
}
