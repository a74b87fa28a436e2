// Package cache is the API server's watch cache, its view of the store: for each resource a Table (in Kubernetes a Cacher) of its current
// objects, each decoded once, and a log of its recent changes for the watches. One feed, the goroutine of Run, watches the store and applies the
// changes to the tables.
//
// The first read fills a table. Lists read a snapshot, in key order. Watches have a place in the log
// (pkg/store/changelog), and read dropped changes from the store. Everything that the package returns is shared and
// must not be changed. The cache does no authorization: the verbs do.
package cache

import (
	"bytes"
	"hash/maphash"
	"maps"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// Item is one version of one object. Requests share its encodings, each of which is computed once.
type Item struct {
	Key      objects.Key
	Revision store.Revision

	path   string         // the key below the table's prefix
	size   int            // of the stored value; 0: unknown
	sum    uint64         // the hash of the stored value
	object objects.Object // nil: decode returns it
	decode func() (objects.Object, error)
	value  []byte         // the stored value, if object is nil
	plain  bool           // value is the object's JSON without the resourceVersion
	kept   *encodingCache // bounds the encodings; nil: they exist as long as the item

	// writers is the item with the decoded object, if object is nil. While the request that wrote the object still
	// holds it, other requests use it instead of decoding value.
	writers weak.Pointer[Item]

	labels atomic.Pointer[labels.Set] // set by the first call of labelSet, if object is nil

	mu      sync.Mutex
	encoded *[encodings]encoded // nil: none
}

// encoded is one encoding of an item. A large encoding that was dropped can be reused as long as a reader holds it, so
// that slow readers of an object share its bytes.
type encoded struct {
	bytes []byte // nil: none, or dropped
	held  weak.Pointer[byte]
	size  int // the size of the bytes that held points to
}

// largeEncoding is the lowest size of an encoding that can be reused after it was dropped.
const largeEncoding = 32 << 10

// find returns the encoding if it is kept or held.
func (e *encoded) find() (b []byte, kept bool) {
	if e.bytes != nil {
		return e.bytes, true
	}
	if p := e.held.Value(); p != nil {
		return unsafe.Slice(p, e.size), false
	}
	return nil, false
}

// drop drops the encoding. large reports whether it may be found again.
func (e *encoded) drop() (large bool) {
	if len(e.bytes) >= largeEncoding {
		e.held, e.size = weak.Make(unsafe.SliceData(e.bytes)), len(e.bytes)
	}
	e.bytes = nil
	return e.size > 0
}

// drop drops the encodings of an item.
func (i *Item) drop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.encoded == nil {
		return
	}
	large := false
	for e := range i.encoded {
		large = i.encoded[e].drop() || large
	}
	if !large {
		i.encoded = nil
	}
}

// Encoding is an encoding of an object in its stored version, or of its metadata, that items keep.
type Encoding uint8

// The encodings.
const (
	JSON             Encoding = iota // with apiVersion and kind, without a newline
	Protobuf                         // with the "k8s\0" envelope
	Metadata                         // the JSON of a PartialObjectMetadata, without a newline
	MetadataProtobuf                 // the protobuf form of a PartialObjectMetadata, with the envelope
	encodings
)

// NewItem returns the item of a decoded object, whose resourceVersion is set. The object is shared from now on.
func NewItem(key objects.Key, rev store.Revision, obj objects.Object) *Item {
	return &Item{Key: key, Revision: rev, object: obj}
}

// NewEncoded returns the item of an object in JSON. Object calls decode.
func NewEncoded(key objects.Key, rev store.Revision, json []byte, decode func() (objects.Object, error)) *Item {
	return &Item{Key: key, Revision: rev, decode: decode, encoded: &[encodings]encoded{JSON: {bytes: json}}}
}

// Size returns the size of the stored value in bytes, 0 if it is unknown.
func (i *Item) Size() int { return i.size }

// Bytes returns the approximate memory of an item that is not kept decoded.
func (i *Item) Bytes() int { return itemBytes + len(i.path) + i.size }

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

// Decoded returns the item's object, and an item that holds it decoded, for a request that reads the object more than once.
func (i *Item) Decoded() (*Item, objects.Object, error) {
	if i.object != nil {
		return i, i.object, nil
	}
	obj, err := i.Object()
	if err != nil {
		return nil, nil, err
	}
	return &Item{Key: i.Key, Revision: i.Revision, path: i.path, size: i.size, sum: i.sum, object: obj, value: i.value}, obj, nil
}

// Encoded returns the item's object in encoding e. The first call computes it with encode. The bytes are shared. The
// cache bounds the encodings of a table's items, and computes a dropped one again.
func (i *Item) Encoded(e Encoding, encode func(objects.Object) ([]byte, error)) ([]byte, error) {
	b, fresh, err := i.encode(e, encode)
	if fresh && i.kept != nil {
		i.kept.add(i, len(b))
	}
	return b, err
}

// EncodedForWatch is Encoded for an event of a watch: the encoding is dropped sooner, since each watch reads it once.
func (i *Item) EncodedForWatch(e Encoding, encode func(objects.Object) ([]byte, error)) ([]byte, error) {
	b, fresh, err := i.encode(e, encode)
	if k := i.kept; fresh && k != nil {
		if k.ofWatches != nil {
			k = k.ofWatches
		}
		k.add(i, len(b))
	}
	return b, err
}

func (i *Item) encode(e Encoding, encode func(objects.Object) ([]byte, error)) (b []byte, fresh bool, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.encoded == nil {
		i.encoded = new([encodings]encoded)
	}
	known := &i.encoded[e]
	b, kept := known.find()
	if b == nil {
		if b, err = i.make(e, encode); err != nil {
			return nil, false, err
		}
	}
	known.bytes = b
	return b, !kept, nil
}

// make computes an encoding from the writer's item, the stored JSON, or the object.
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

// labelSet returns the labels of the item's object. An item without a decoded object keeps them, so that it is decoded once for all
// watches that select by labels.
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

// At returns the item of a deletion at revision rev: the same object with that resourceVersion.
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

// withRevision returns a shallow copy of a shared object with another resourceVersion.
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

// newItem returns the item of a stored value. Its object is decoded, unless items of the resource are not kept decoded. The error
// is that of a value that cannot be decoded.
func (t *Table) newItem(path string, rev store.Revision, value []byte) (*Item, error) {
	i := t.encodedItem(path, rev, value)
	if t.resource.Undecoded {
		if err := t.check(path, value); err != nil {
			return nil, err
		}
		return i, nil
	}
	obj, err := i.decode()
	if err != nil {
		return nil, err
	}
	if err := checkName(path, obj); err != nil {
		return nil, err
	}
	i.object, i.decode = obj, nil
	return i, nil
}

// encodedItem returns the item of a stored value that has not been decoded.
func (t *Table) encodedItem(path string, rev store.Revision, value []byte) *Item {
	i := &Item{Key: keyOf(path), Revision: rev, path: path, size: len(value), sum: sumOf(value), kept: t.cache.kept}
	i.decode = t.decoder(value, rev)
	if t.resource.Undecoded {
		i.value = value
	}
	return i
}

// decoder returns the function that decodes a stored value of revision rev.
func (t *Table) decoder(value []byte, rev store.Revision) func() (objects.Object, error) {
	return func() (objects.Object, error) {
		obj, err := decode(t.resource, value)
		if err != nil {
			return nil, err
		}
		obj.SetResourceVersion(formatRevision(rev))
		return obj, nil
	}
}

// seed is the seed of all sums.
var seed = maphash.MakeSeed()

func sumOf(value []byte) uint64 { return maphash.Bytes(seed, value) }

// scratch holds buffers for encodings that are only compared.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// IsStoredAs reports whether value is the stored value of the item's object, which has kind gvk. Most different values
// are detected by size and hash, without encoding the object again.
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

// Stores reports whether obj, of kind gvk and without a resourceVersion, has the same stored value as the item's object.
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

// keep replaces a buffer by a larger one.
func keep(buf *[]byte, larger []byte) {
	if cap(larger) > cap(*buf) {
		*buf = larger[:0]
	}
}

// stored encodes the item's object as the store does, into buf if that is large enough.
func (i *Item) stored(buf []byte, gvk schema.GroupVersionKind) ([]byte, error) {
	obj, err := i.Object()
	if err != nil {
		return nil, err
	}
	bare := withRevision(obj, 0)
	bare.SetResourceVersion("")
	return EncodeTo(buf, gvk, bare)
}
