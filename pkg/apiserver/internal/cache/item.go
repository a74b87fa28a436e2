// Package cache owns the API server's view of the store: per resource the current objects, decoded once and immutable,
// and the recent changes, from which all watches are served. One feed reads the store's changes and hands them on.
//
// A Table (a resource's part) is filled at its first use. Its objects and events are of one resource in key order; lists
// work on a snapshot, watches hold a position in a linked list of batches, and what is older than that list is read from
// the store. The verbs above it decide what a request may see; what is handed out here is shared and never changed.
package cache

import (
	"bytes"
	"hash/maphash"
	"maps"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// Item is one version of one object. Its encodings are made at most once and shared by all who ask.
type Item struct {
	Key      objects.Key
	Revision store.Revision

	path   string         // the key below the table's prefix
	size   int            // of the stored bytes; 0: not known
	sum    uint64         // of the stored bytes
	object objects.Object // nil: kept encoded, see decode
	decode func() (objects.Object, error)
	value  []byte // what the store keeps, of an item that is not kept decoded
	plain  bool   // value is the object's JSON but for the resourceVersion
	kept   *kept  // nil: encodings live as long as the item

	// writers is the item that the object's writer has, with the object, of one that is not kept decoded: as long as the
	// writer needs it, others need not decode it.
	writers weak.Pointer[Item]

	labels atomic.Pointer[labels.Set] // once somebody has asked, of an item that is not kept decoded

	mu      sync.Mutex
	encoded *[encodings][]byte // nil: none
}

// Encoding is a form of the stored version of an object, or of its metadata, that is worth keeping.
type Encoding uint8

// The encodings.
const (
	JSON             Encoding = iota // with apiVersion and kind, without a newline
	Protobuf                         // with the "k8s\0" envelope
	Metadata                         // the JSON of a PartialObjectMetadata, likewise
	MetadataProtobuf                 // the same, with the envelope
	encodings
)

// NewItem returns the item of a decoded object, which has its resourceVersion set and is shared from now on.
func NewItem(key objects.Key, rev store.Revision, obj objects.Object) *Item {
	return &Item{Key: key, Revision: rev, object: obj}
}

// NewEncoded returns the item of an object that is at hand as JSON, and is decoded when it is asked for.
func NewEncoded(key objects.Key, rev store.Revision, json []byte, decode func() (objects.Object, error)) *Item {
	return &Item{Key: key, Revision: rev, decode: decode, encoded: &[encodings][]byte{JSON: json}}
}

// Object returns the item's object, of the stored version. It is shared and must not be changed.
func (i *Item) Object() (objects.Object, error) {
	if i.object != nil {
		return i.object, nil
	}
	if w := i.writers.Value(); w != nil {
		return w.object, nil
	}
	return i.decode()
}

// Opened returns the item's object, and the item with it at hand, for a request that looks at both more than once.
func (i *Item) Opened() (*Item, objects.Object, error) {
	if i.object != nil {
		return i, i.object, nil
	}
	obj, err := i.Object()
	if err != nil {
		return nil, nil, err
	}
	return &Item{Key: i.Key, Revision: i.Revision, path: i.path, size: i.size, sum: i.sum, object: obj, value: i.value}, obj, nil
}

// Encoded returns the item's object in encoding e, made by encode when it is asked for first. The bytes are shared. Those
// of a table's items are kept for a while.
func (i *Item) Encoded(e Encoding, encode func(objects.Object) ([]byte, error)) ([]byte, error) {
	b, fresh, err := i.encode(e, encode)
	if fresh && i.kept != nil {
		i.kept.add(i, len(b))
	}
	return b, err
}

func (i *Item) encode(e Encoding, encode func(objects.Object) ([]byte, error)) (b []byte, fresh bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.encoded != nil && i.encoded[e] != nil {
		return i.encoded[e], false, nil
	}
	if b, err = i.make(e, encode); err != nil {
		return nil, false, err
	}
	if i.encoded == nil {
		i.encoded = new([encodings][]byte)
	}
	i.encoded[e] = b
	return b, true, nil
}

// make returns an encoding that the item does not have: its writer may, or it is nearly what the store keeps.
func (i *Item) make(e Encoding, encode func(objects.Object) ([]byte, error)) ([]byte, error) {
	if w := i.writers.Value(); w != nil {
		b, _, err := w.encode(e, encode)
		return b, err
	}
	if e == JSON && i.plain {
		if b, ok := withVersion(i.value, i.Revision); ok {
			return b, nil
		}
	}
	obj, err := i.Object()
	if err != nil {
		return nil, err
	}
	return encode(obj)
}

// labelSet returns the labels of the item's object. They are remembered where it would have to be decoded for each watch
// that selects by labels.
func (i *Item) labelSet() (labels.Set, error) {
	if i.object != nil {
		return i.object.GetLabels(), nil
	}
	if set := i.labels.Load(); set != nil {
		return *set, nil
	}
	obj, err := i.Object()
	if err != nil {
		return nil, err
	}
	set := labels.Set(obj.GetLabels())
	i.labels.Store(&set)
	return set, nil
}

// At returns the item as a deletion at revision rev shows it: the same object with that resourceVersion.
func (i *Item) At(rev store.Revision) *Item {
	gone := &Item{Key: i.Key, Revision: rev, path: i.path, size: i.size, value: i.value, plain: i.plain, kept: i.kept}
	if i.object != nil {
		gone.object = withRevision(i.object, rev)
		return gone
	}
	gone.decode = func() (objects.Object, error) {
		obj, err := i.Object()
		if err != nil {
			return nil, err
		}
		return withRevision(obj, rev), nil
	}
	return gone
}

// withRevision returns a shallow copy of a shared object with another resourceVersion. What the two share is immutable.
func withRevision(obj objects.Object, rev store.Revision) objects.Object {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		obj = bare(u)
		obj.SetResourceVersion(formatRevision(rev))
		return obj
	}
	from := reflect.ValueOf(obj).Elem()
	to := reflect.New(from.Type())
	to.Elem().Set(from)
	out := to.Interface().(objects.Object)
	out.SetResourceVersion(formatRevision(rev))
	return out
}

// bare returns a copy of u whose metadata can be set.
func bare(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	if metadata, ok := u.Object["metadata"].(map[string]any); ok {
		out.Object["metadata"] = maps.Clone(metadata)
	}
	return out
}

func formatRevision(rev store.Revision) string { return strconv.FormatUint(uint64(rev), 10) }

// newItem returns the item of a value in the store. Where the resource is not kept decoded, it decodes when asked.
func (t *Table) newItem(path string, rev store.Revision, value []byte) *Item {
	i := &Item{Key: keyOf(path), Revision: rev, path: path, size: len(value), sum: sumOf(value), kept: t.cache.kept}
	i.decode = func() (objects.Object, error) {
		obj, err := decode(t.resource, value)
		if err != nil {
			return nil, err
		}
		obj.SetResourceVersion(formatRevision(rev))
		return obj, nil
	}
	if t.resource.Undecoded {
		i.value = value
		return i
	}
	if obj, err := i.decode(); err == nil {
		i.object, i.decode = obj, nil
	}
	return i // a value that cannot be read says so to whoever asks for its object
}

// seed is that of all sums of this process.
var seed = maphash.MakeSeed()

func sumOf(value []byte) uint64 { return maphash.Bytes(seed, value) }

// scratch holds buffers for encodings that are only compared.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// IsStoredAs reports whether value is what the store keeps of the item's object, which is of kind gvk. That it is not is
// known without encoding the object again.
func (i *Item) IsStoredAs(gvk schema.GroupVersionKind, value []byte) (bool, error) {
	if i.value != nil {
		return bytes.Equal(i.value, value), nil
	}
	if i.size > 0 && (i.size != len(value) || i.sum != sumOf(value)) {
		return false, nil
	}
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	was, err := i.stored(*buf, gvk)
	if err != nil {
		return false, err
	}
	keep(buf, was)
	return bytes.Equal(was, value), nil
}

// Stores reports whether the store would keep the same of obj, of kind gvk and without a resourceVersion, as it keeps of the
// item's object.
func (i *Item) Stores(gvk schema.GroupVersionKind, obj objects.Object) (bool, error) {
	if p, ok := obj.(protobuf); ok && i.size > 0 && i.size != envelopeSize(gvk, p.Size()) {
		return false, nil
	}
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	value, err := EncodeTo(*buf, gvk, obj)
	if err != nil {
		return false, err
	}
	keep(buf, value)
	return i.IsStoredAs(gvk, value)
}

// keep puts a buffer that had to be made larger in the place of the one before.
func keep(buf *[]byte, larger []byte) {
	if cap(larger) > cap(*buf) {
		*buf = larger[:0]
	}
}

// stored returns what the store keeps of the item's object, made anew into buf where that is large enough.
func (i *Item) stored(buf []byte, gvk schema.GroupVersionKind) ([]byte, error) {
	obj, err := i.Object()
	if err != nil {
		return nil, err
	}
	bare := withRevision(obj, 0)
	bare.SetResourceVersion("")
	return EncodeTo(buf, gvk, bare)
}
