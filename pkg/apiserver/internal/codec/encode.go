package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
)

// protobufMagic is the prefix of every protobuf body.
var protobufMagic = []byte("k8s\x00")

// ErrNoProtobuf means that a type has no protobuf form.
var ErrNoProtobuf = errors.New("object does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message")

// marshaler is implemented by types with a protobuf form.
type marshaler interface{ Marshal() ([]byte, error) }

// Kind is a resource in a served version.
type Kind struct {
	Resource *objects.Resource
	Version  *objects.VersionOf // nil: the stored version
}

// GVK returns the kind in the served version.
func (k Kind) GVK() schema.GroupVersionKind {
	gvk := k.Resource.Names.GVK()
	if k.Version != nil {
		gvk.Group, gvk.Version = k.Version.Group, k.Version.Version
	}
	return gvk
}

// Stored reports whether the served version is the stored one.
func (k Kind) Stored() bool { return k.Version == nil || k.Version.From == nil }

// Object returns the object of it in the served version. The object is shared if that is the stored version.
func (k Kind) Object(it *cache.Item) (runtime.Object, error) {
	obj, err := it.Object()
	if err != nil || k.Stored() {
		return obj, err
	}
	return k.Version.From(obj)
}

// Encode returns the encoded object of it, in JSON or Protobuf, with apiVersion and kind and without a newline. The bytes are
// shared.
func (k Kind) Encode(it *cache.Item, f Format) ([]byte, error) {
	return k.encode(it, f, (*cache.Item).Encoded)
}

// EncodeEvent is Encode for an event of a watch.
func (k Kind) EncodeEvent(it *cache.Item, f Format) ([]byte, error) {
	return k.encode(it, f, (*cache.Item).EncodedForWatch)
}

type encodeFunc = func(objects.Object) ([]byte, error)

func (k Kind) encode(it *cache.Item, f Format, encoded func(*cache.Item, cache.Encoding, encodeFunc) ([]byte, error)) ([]byte, error) {
	if !k.Stored() {
		obj, err := k.Object(it)
		if err != nil {
			return nil, err
		}
		return Marshal(obj, k.GVK(), f)
	}
	kept := cache.JSON
	if f == Protobuf {
		kept = cache.Protobuf
	}
	return encoded(it, kept, func(obj objects.Object) ([]byte, error) { return Marshal(obj, k.GVK(), f) })
}

// Marshal encodes obj with kind gvk, in JSON or Protobuf. It does not change obj.
func Marshal(obj runtime.Object, gvk schema.GroupVersionKind, f Format) ([]byte, error) {
	if f == Protobuf {
		return marshalProtobuf(obj, gvk)
	}
	return marshalJSON(obj, gvk)
}

func marshalJSON(obj runtime.Object, gvk schema.GroupVersionKind) ([]byte, error) {
	b, err := json.Marshal(as(obj, gvk))
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", gvk.Kind, err)
	}
	return b, nil
}

// as returns obj with kind gvk: obj itself if it has that kind, else a copy of its outermost struct, because obj is shared.
func as(obj runtime.Object, gvk schema.GroupVersionKind) runtime.Object {
	if obj.GetObjectKind().GroupVersionKind() == gvk {
		return obj
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		out := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
		out.SetGroupVersionKind(gvk)
		return out
	}
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer {
		return obj
	}
	shallow := reflect.New(v.Type().Elem())
	shallow.Elem().Set(v.Elem())
	out := shallow.Interface().(runtime.Object)
	out.GetObjectKind().SetGroupVersionKind(gvk)
	return out
}

func marshalProtobuf(obj runtime.Object, gvk schema.GroupVersionKind) ([]byte, error) {
	if _, ok := obj.(marshaler); !ok {
		return nil, ErrNoProtobuf
	}
	return cache.EncodeProtobuf(gvk, obj)
}

// jsonHead is the beginning of the JSON of an object of kind gvk. Items of a list omit it.
func jsonHead(gvk schema.GroupVersionKind) []byte {
	return []byte(`{"kind":"` + gvk.Kind + `","apiVersion":"` + gvk.GroupVersion().String() + `",`)
}

// Encoding returns the format in which a response is encoded before Finish converts it to m: JSON for YAML.
func (m Media) Encoding() Format {
	if m.Format == Protobuf {
		return Protobuf
	}
	return JSON
}

func indent(b []byte) ([]byte, error) {
	var out bytes.Buffer
	out.Grow(2 * len(b))
	if err := json.Indent(&out, bytes.TrimSuffix(b, []byte("\n")), "", "  "); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Textual reports whether the kind has no protobuf form.
func (k Kind) Textual() bool {
	if k.Stored() {
		_, ok := k.Resource.New().(marshaler)
		return !ok
	}
	_, ok := k.Version.New().(marshaler)
	return !ok
}
