// Package track owns managedFields, which record the manager of each field of an object. The results are those of Kubernetes'
// library (apimachinery's managedfields).
//
// The library takes some hundred microseconds for an update of a pod, most of it to turn objects into sets of field paths. Its
// results are therefore cached. They depend on the shape of a write (see shape.go), not on the values in the objects, so that
// a write with a known shape costs one walk through the objects.
package track

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Tracker computes managedFields. It is safe for concurrent use.
type Tracker struct {
	clock clock.Clock

	mu       sync.Mutex
	managers map[target]*manager
}

// target is the destination of a write.
type target struct {
	resource    *objects.Resource
	version     schema.GroupVersion // of the request
	subresource string
}

// manager is the library's field manager for one target.
type manager struct {
	library     *managedfields.FieldManager
	largeUpdate *managedfields.FieldManager // for updates of objects with large maps or lists
	largeApply  *managedfields.FieldManager // for applies with large maps or lists
	converter   *converter
	kind        schema.GroupVersionKind
	subresource bool
	none        objects.Object // the old object of a create
	plan        *plan          // of the objects in the manager's version; nil: results are not cached
	memo        memo

	// requested converts a stored object to the manager's version. It is nil if that is the stored one.
	requested func(objects.Object) (runtime.Object, error)
}

// New returns a tracker that takes times from clk.
func New(clk clock.Clock) *Tracker {
	return &Tracker{clock: clk, managers: map[target]*manager{}}
}

// Write describes a write.
type Write struct {
	Resource    *objects.Resource
	Version     *objects.VersionOf // the version of the request; nil: the stored one
	Subresource string
	Manager     string
}

// requestedVersion returns the version of the request.
func (w Write) requestedVersion() *objects.VersionOf {
	if w.Version != nil {
		return w.Version
	}
	return &w.Resource.Versions[0]
}

func (t *Tracker) manager(w Write) (*manager, error) {
	if w.Subresource == scale {
		w.Resource, w.Version = &scales, nil
	}
	v := w.requestedVersion()
	key := target{w.Resource, schema.GroupVersion{Group: v.Group, Version: v.Version}, w.Subresource}
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.managers[key]; m != nil {
		return m, nil
	}
	m, err := newManager(w.Resource, key)
	if err != nil {
		return nil, err
	}
	t.managers[key] = m
	return m, nil
}

func newManager(r *objects.Resource, to target) (*manager, error) {
	c, err := newConverter(r)
	if err != nil {
		return nil, err
	}
	kind := to.version.WithKind(r.Names.Kind)
	m := &manager{converter: c, kind: kind, subresource: to.subresource != "", none: r.New()}
	for o, library := range map[order]**managedfields.FieldManager{unordered: &m.library, allSorted: &m.largeUpdate, mapsSorted: &m.largeApply} {
		c := c.inOrder(o)
		*library, err = managedfields.NewDefaultFieldManager(
			c, c, c, c, kind, r.Names.GVK().GroupVersion(), to.subresource, resetFields(r, to))
		if err != nil {
			return nil, fmt.Errorf("track %s: %w", kind, err)
		}
	}
	m.none.GetObjectKind().SetGroupVersionKind(r.Names.GVK())
	v := c.versions[to.version]
	switch {
	case r.Custom():
	case v.To == nil:
		m.plan = planOf(reflect.TypeOf(m.none), v.merge)
	default:
		m.requested = v.From
		m.plan = planOf(reflect.TypeOf(v.New()), v.merge)
	}
	return m, nil
}

// resetFields returns the fields that a write to the target cannot own.
func resetFields(r *objects.Resource, to target) map[fieldpath.APIVersion]fieldpath.Filter {
	var names []string
	if to.subresource == "" {
		names = r.Reset
	} else if part := r.Part(to.subresource); part != nil {
		names = part.Reset
	}
	if len(names) == 0 {
		return nil
	}
	set := fieldpath.NewSet()
	for _, name := range names {
		var path fieldpath.Path
		for part := range strings.SplitSeq(name, ".") {
			path = append(path, fieldpath.PathElement{FieldName: &part})
		}
		set.Insert(path)
	}
	out := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, v := range r.Versions {
		out[fieldpath.APIVersion(schema.GroupVersion{Group: v.Group, Version: v.Version}.String())] = set
	}
	return fieldpath.NewExcludeFilterSetMap(out)
}

// Update updates obj's managedFields with the changes from old (nil: obj is new). obj is of the stored version, or a Scale for
// a write through that subresource (see ScaleOf).
func (t *Tracker) Update(w Write, old, obj objects.Object) error {
	m, err := t.manager(w)
	if err != nil {
		return err
	}
	live := old
	if live == nil {
		live = m.none
	}
	obj.GetObjectKind().SetGroupVersionKind(m.none.GetObjectKind().GroupVersionKind())
	q, placeholders, ok := m.keyOfWrite(w.Manager, live, obj)
	if ok {
		if known, ok := m.memo.get(q); ok {
			obj.SetManagedFields(known.entries(live.GetManagedFields(), now(t.clock), placeholders))
			return nil
		}
	}
	library := m.library
	if isLarge(live) || isLarge(obj) {
		if e, err := m.effortOf(obj); err == nil && e.wrong > maxWrong {
			obj.SetManagedFields(live.GetManagedFields()) // as the library does after all its errors; the object is not valid
			return nil
		}
		library = m.largeUpdate
	}
	sortSent(obj)
	if tracked := library.UpdateNoErrors(live, obj, w.Manager); tracked != obj {
		return fmt.Errorf("track %s: another object came back", m.kind)
	}
	if ok {
		m.memo.put(q, newMemoResult(obj.GetManagedFields(), live.GetManagedFields(), placeholders))
	}
	stamp(live, obj, now(t.clock))
	return nil
}

// Apply merges an applied configuration into old (nil: there is no object yet) and returns the result in the stored version. A
// conflict with other managers is a StatusError.
func (t *Tracker) Apply(w Write, old objects.Object, patch *unstructured.Unstructured, force bool) (objects.Object, error) {
	m, err := t.manager(w)
	if err != nil {
		return nil, err
	}
	live := old
	if live == nil {
		live = m.none
	}
	library := m.library
	if isLarge(live) || isLarge(patch) {
		if err := m.checkApply(live, patch); err != nil {
			return nil, err
		}
		library = m.largeApply
	}
	merged, err := library.Apply(live, patch, w.Manager, force)
	if err != nil {
		return nil, err
	}
	obj, ok := merged.(objects.Object)
	if !ok || reflect.TypeOf(obj) != reflect.TypeOf(live) {
		return nil, fmt.Errorf("apply %s: outcome is a %T", m.kind, merged)
	}
	stamp(live, obj, now(t.clock))
	return obj, nil
}

// now returns the time of a write, in whole seconds: a client that sends an object back must send the same times.
func now(clk clock.Clock) *metav1.Time {
	now := metav1.NewTime(clk.Now().UTC().Truncate(time.Second))
	return &now
}

// stamp replaces the library's times, which are of the system clock, by now, and sorts the entries accordingly.
func stamp(old, obj objects.Object, now *metav1.Time) {
	entries, was := obj.GetManagedFields(), old.GetManagedFields()
	for i := range entries {
		if entries[i].Time == nil {
			continue // an entry that a client has sent, or of an apply without a change
		}
		j := slices.IndexFunc(was, func(e metav1.ManagedFieldsEntry) bool { return sameEntry(&e, &entries[i]) })
		if j < 0 || !was[j].Time.Equal(entries[i].Time) {
			entries[i].Time = now
		}
	}
	sortEntries(entries)
	obj.SetManagedFields(entries)
}

// sameEntry reports whether two entries are of the same manager, operation, version and subresource.
func sameEntry(a, b *metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource
}

// sortEntries sorts by operation (Apply first), time in seconds, manager, version and subresource.
func sortEntries(entries []metav1.ManagedFieldsEntry) {
	slices.SortStableFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		if c := strings.Compare(string(a.Operation), string(b.Operation)); c != 0 {
			return c // Apply, Update
		}
		if x, y := seconds(a.Time), seconds(b.Time); x != y {
			if x < y {
				return -1
			}
			return 1
		}
		if c := strings.Compare(a.Manager, b.Manager); c != 0 {
			return c
		}
		if c := strings.Compare(a.APIVersion, b.APIVersion); c != 0 {
			return c
		}
		return strings.Compare(a.Subresource, b.Subresource)
	})
}

func seconds(t *metav1.Time) int64 {
	if t == nil {
		return 0
	}
	return t.Unix()
}
