package track

import (
	"bytes"
	"hash/maphash"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

var objectMeta = reflect.TypeFor[metav1.ObjectMeta]()

// memo caches the library's results. It has two generations: when the young one is full, it replaces the old one.
type memo struct {
	mu          sync.Mutex
	recent, old map[memoKey]memoResult
}

// generation is the number of results in a generation.
const generation = 2048

// memoKey is the key of a cached result: everything that the result depends on.
type memoKey struct {
	manager string
	shape   uint64
	managed uint64 // the hash of the old object's managedFields
}

// memoResult is a cached result: the new managedFields without their times.
type memoResult []entry

type entry struct {
	metav1.ManagedFieldsEntry                                  // Time is nil
	from                      int                              // the old entry whose time it keeps; -1: the time of the write
	filled                    *atomic.Pointer[metav1.FieldsV1] // the last fields with values for placeholders; nil: they have none
	timeless                  bool                             // it has no time
}

func (m *memo) get(q memoKey) (memoResult, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a, ok := m.recent[q]; ok {
		return a, true
	}
	a, ok := m.old[q]
	if ok {
		m.putLocked(q, a)
	}
	return a, ok
}

func (m *memo) put(q memoKey, a memoResult) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.putLocked(q, a)
}

func (m *memo) putLocked(q memoKey, a memoResult) {
	if m.recent == nil || len(m.recent) >= generation {
		m.old, m.recent = m.recent, map[memoKey]memoResult{}
	}
	m.recent[q] = a
}

// With maxManagers or more entries, the library merges the oldest ones. The result then depends on their times, so it is
// not cached.
const maxManagers = 10

// keyOfWrite returns the key of a write. ok is false if the result of the write cannot be cached.
func (m *manager) keyOfWrite(manager string, old, obj objects.Object) (q memoKey, placeholders []placeholder, ok bool) {
	was := old.GetManagedFields()
	if m.plan == nil || len(was) >= maxManagers || !m.keepsManagedFields(obj.GetManagedFields(), was) {
		return q, nil, false
	}
	var w walk
	exists := uint64(0)
	if old.GetUID() != "" {
		exists = 1
	}
	before, after, ok := m.versioned(old, obj)
	if !ok {
		return q, nil, false
	}
	shape := w.visit(m.plan, side{reflect.ValueOf(before), present}, side{reflect.ValueOf(after), present})
	managed := uint64(len(was))
	for i := range was {
		e := &was[i]
		if e.FieldsV1 == nil || slices.ContainsFunc(was[:i], func(o metav1.ManagedFieldsEntry) bool { return sameEntry(&o, e) }) {
			return q, nil, false
		}
		managed = mix(managed, maphash.String(seed, e.Manager))
		managed = mix(managed, maphash.String(seed, string(e.Operation)))
		managed = mix(managed, maphash.String(seed, e.APIVersion))
		managed = mix(managed, maphash.String(seed, e.Subresource))
		managed = mix(managed, maphash.Bytes(seed, blank(e.FieldsV1.Raw, w.placeholders)))
	}
	return memoKey{manager, mix(shape, exists), managed}, w.placeholders, !w.lost
}

// versioned returns the objects of a write in the manager's version. ok is false if the result also depends on other versions
// than that: the old managedFields of an object may be of several ones.
func (m *manager) versioned(old, obj objects.Object) (before, after runtime.Object, ok bool) {
	if m.requested == nil {
		return old, obj, true
	}
	if len(old.GetManagedFields()) > 0 {
		return nil, nil, false
	}
	before, err := m.requested(old)
	if err != nil {
		return nil, nil, false
	}
	after, err = m.requested(obj)
	return before, after, err == nil
}

// blank replaces the addresses in FieldsV1 by placeholders, and fill reverts that. Neither changes raw.
func blank(raw []byte, placeholders []placeholder) []byte {
	for i, h := range placeholders {
		raw = bytes.ReplaceAll(raw, elementName(h.name, h.value), elementName(h.name, placeholderText(i)))
	}
	return raw
}

func fill(raw []byte, placeholders []placeholder) []byte {
	for i, h := range placeholders {
		raw = bytes.ReplaceAll(raw, elementName(h.name, placeholderText(i)), elementName(h.name, h.value))
	}
	return raw
}

// elementName returns the name in FieldsV1 of a list element with one key, or with the name "" that of an element of a set.
func elementName(name, value string) []byte {
	if name == "" {
		return []byte(`"v:\"` + value + `\""`)
	}
	return []byte(`"k:{\"` + name + `\":\"` + value + `\"}"`)
}

// placeholderText returns the text of a placeholder, which is no valid address.
func placeholderText(i int) string { return "#" + strconv.Itoa(i) }

// keepsManagedFields reports whether the managedFields that a client sends equal the stored ones. Those sent to a subresource are ignored.
func (m *manager) keepsManagedFields(sent, was []metav1.ManagedFieldsEntry) bool {
	if m.subresource || sent == nil {
		return true
	}
	return len(sent) > 0 && slices.EqualFunc(sent, was, func(a, b metav1.ManagedFieldsEntry) bool {
		return sameEntry(&a, &b) && a.FieldsType == b.FieldsType && a.Time.Equal(b.Time) &&
			a.FieldsV1 != nil && b.FieldsV1 != nil && string(a.FieldsV1.Raw) == string(b.FieldsV1.Raw)
	})
}

// newMemoResult returns the library's result without times, and with placeholders instead of addresses.
func newMemoResult(entries, was []metav1.ManagedFieldsEntry, placeholders []placeholder) memoResult {
	out := make(memoResult, 0, len(entries))
	for _, e := range entries {
		from := slices.IndexFunc(was, func(o metav1.ManagedFieldsEntry) bool { return sameEntry(&o, &e) })
		if from >= 0 && !was[from].Time.Equal(e.Time) {
			from = -1
		}
		timeless := e.Time == nil
		e.Time = nil
		var filled *atomic.Pointer[metav1.FieldsV1]
		if e.FieldsV1 != nil && len(placeholders) > 0 {
			raw := blank(e.FieldsV1.Raw, placeholders)
			if !bytes.Equal(raw, e.FieldsV1.Raw) {
				filled = new(atomic.Pointer[metav1.FieldsV1])
			}
			e.FieldsV1 = &metav1.FieldsV1{Raw: raw}
		}
		out = append(out, entry{e, from, filled, timeless})
	}
	return out
}

// entries returns the managedFields of a cached result, with the times and the addresses of this write.
func (a memoResult) entries(was []metav1.ManagedFieldsEntry, now *metav1.Time, placeholders []placeholder) []metav1.ManagedFieldsEntry {
	if len(a) == 0 {
		return nil
	}
	out := make([]metav1.ManagedFieldsEntry, len(a))
	for i, e := range a {
		out[i] = e.ManagedFieldsEntry
		if e.filled != nil {
			out[i].FieldsV1 = e.fill(placeholders)
		}
		switch {
		case e.from >= 0:
			out[i].Time = was[e.from].Time
		case !e.timeless:
			out[i].Time = now
		}
	}
	sortEntries(out)
	return out
}

// fill returns the fields with the values of the placeholders. Consecutive writes with the same values share them, e.g. those of
// the pods of one owner.
func (e *entry) fill(placeholders []placeholder) *metav1.FieldsV1 {
	raw := fill(e.FieldsV1.Raw, placeholders)
	if last := e.filled.Load(); last != nil && bytes.Equal(last.Raw, raw) {
		return last
	}
	fields := &metav1.FieldsV1{Raw: raw}
	e.filled.Store(fields)
	return fields
}
