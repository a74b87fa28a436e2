package cache

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/objects"
)

// magic begins every protobuf encoding of an API object.
var magic = []byte{'k', '8', 's', 0}

// protobuf is implemented by the types of k8s.io/api.
type protobuf interface {
	sized
	Unmarshal(data []byte) error
}

// sized is what can be encoded into a buffer of its size.
type sized interface {
	Size() int
	MarshalToSizedBuffer(buf []byte) (int, error)
}

// EncodeProtobuf returns obj as protobuf in the API's envelope, which names gvk. It returns an error for types without a protobuf
// form.
func EncodeProtobuf(gvk schema.GroupVersionKind, obj runtime.Object) ([]byte, error) {
	switch p := obj.(type) {
	case protobuf:
		return envelope(nil, gvk, p)
	case interface{ Marshal() ([]byte, error) }:
		b, err := p.Marshal()
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", gvk.Kind, err)
		}
		return envelope(nil, gvk, message(b))
	}
	return nil, fmt.Errorf("%T has no protobuf form", obj)
}

// message is an encoded message.
type message []byte

func (m message) Size() int { return len(m) }

func (m message) MarshalToSizedBuffer(b []byte) (int, error) { return copy(b, m), nil }

// envelope appends p in a runtime.Unknown to scratch: field 1 the TypeMeta, 2 the object, 3 and 4 (content encoding and
// type) empty.
func envelope(scratch []byte, gvk schema.GroupVersionKind, p sized) ([]byte, error) {
	apiVersion, size := gvk.GroupVersion().String(), p.Size()
	meta := metaSize(gvk)
	total := envelopeSize(gvk, size)
	out := scratch[:0]
	if cap(out) < total {
		out = make([]byte, 0, total)
	}
	out = append(out, magic...)
	out = append(out, 0x0a, byte(meta), 0x0a, byte(len(apiVersion)))
	out = append(out, apiVersion...)
	out = append(out, 0x12, byte(len(gvk.Kind)))
	out = append(out, gvk.Kind...)
	out = appendVarint(append(out, 0x12), size)
	body := len(out)
	out = out[:body+size]
	if _, err := p.MarshalToSizedBuffer(out[body:]); err != nil {
		return nil, fmt.Errorf("encode %s: %w", gvk.Kind, err)
	}
	return append(out, 0x1a, 0, 0x22, 0), nil
}

// envelopeSize returns the size of the envelope of an object of size bytes.
func envelopeSize(gvk schema.GroupVersionKind, size int) int {
	return len(magic) + 2 + metaSize(gvk) + 1 + varintSize(size) + size + 4
}

// metaSize returns the size of the TypeMeta, whose fields are each shorter than 128 bytes.
func metaSize(gvk schema.GroupVersionKind) int {
	return 2 + len(gvk.GroupVersion().String()) + 2 + len(gvk.Kind)
}

func varintSize(n int) int {
	size := 1
	for n >= 0x80 {
		n >>= 7
		size++
	}
	return size
}

func appendVarint(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

// Encode returns the stored value of obj: protobuf, or JSON for types without a protobuf form. obj must have no resourceVersion,
// which is the revision of the write.
func Encode(gvk schema.GroupVersionKind, obj objects.Object) ([]byte, error) {
	return EncodeTo(nil, gvk, obj)
}

// EncodeTo is Encode into scratch, if that is large enough.
func EncodeTo(scratch []byte, gvk schema.GroupVersionKind, obj objects.Object) ([]byte, error) {
	if p, ok := obj.(protobuf); ok {
		return envelope(scratch, gvk, p)
	}
	b, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", gvk.Kind, err)
	}
	return b, nil
}

// Decode returns the object of r that Encode has written, without its resourceVersion.
func Decode(r *objects.Resource, value []byte) (objects.Object, error) { return decode(r, value) }

// decode decodes a stored value into a new object of r, without its resourceVersion. It sets defaults: of fields that had none when
// the value was stored, and of fields that are not part of protobuf (the kind of a claim in a StatefulSet).
func decode(r *objects.Resource, value []byte) (objects.Object, error) {
	if r.Read != nil {
		return r.Read(value)
	}
	obj := r.New()
	if err := decodeInto(obj, value); err != nil {
		return nil, fmt.Errorf("decode stored %s: %w", r.Names.Kind, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(r.Names.GVK())
	r.Default(obj)
	return obj, nil
}

func decodeInto(obj objects.Object, value []byte) error {
	if !bytes.HasPrefix(value, magic) {
		return json.Unmarshal(value, obj)
	}
	p, ok := obj.(protobuf)
	if !ok {
		return fmt.Errorf("%T has no protobuf form", obj)
	}
	var u runtime.Unknown
	if err := u.Unmarshal(value[len(magic):]); err != nil {
		return err
	}
	return p.Unmarshal(u.Raw)
}
