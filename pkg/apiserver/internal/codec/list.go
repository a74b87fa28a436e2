package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
)

// Pieces yields the parts of a body in order, until an error. A part is encoded when it is reached, so that a client that reads slowly
// holds few of them. The parts are shared and must not be changed. The first part of a list in JSON ends with the bracket of its items, and a
// part that begins with a comma begins the next item.
type Pieces iter.Seq2[[]byte, error]

// Bytes returns the body in one piece.
func (p Pieces) Bytes() ([]byte, error) {
	var out []byte
	for b, err := range p {
		if err != nil {
			return nil, err
		}
		out = append(out, b...)
	}
	return out, nil
}

var (
	comma   = []byte(",")
	listEnd = []byte("]}\n")
)

// encoder encodes an item of a list, in JSON or Protobuf, with apiVersion and kind.
type encoder func(*cache.Item) ([]byte, error)

// List returns a list of items of kind k, which shares the items' bytes.
func (k Kind) List(items []*cache.Item, meta metav1.ListMeta, f Format) (Pieces, error) {
	encode := func(it *cache.Item) ([]byte, error) { return k.Encode(it, f) }
	if f == Protobuf {
		return protobufList(k.GVK(), meta, items, encode)
	}
	m, err := json.Marshal(listMeta(meta, k.Resource.Custom()))
	if err != nil {
		return nil, fmt.Errorf("encode list metadata: %w", err)
	}
	return jsonList(k.GVK(), m, items, encode, jsonHead(k.GVK())), nil
}

// listMeta returns the metadata of a list in its encoded form. A list of custom resources always has "continue".
func listMeta(meta metav1.ListMeta, untyped bool) any {
	if !untyped {
		return meta
	}
	out := map[string]any{"continue": meta.Continue, "resourceVersion": meta.ResourceVersion}
	if meta.RemainingItemCount != nil {
		out["remainingItemCount"] = *meta.RemainingItemCount
	}
	return out
}

// jsonList returns a list with metadata m of items of kind gvk. If itemHead is not nil, each encoded item begins with it, an
// apiVersion and a kind, and jsonList removes it.
func jsonList(gvk schema.GroupVersionKind, m []byte, items []*cache.Item, encode encoder, itemHead []byte) Pieces {
	gvk.Kind += "List"
	head := append(jsonHead(gvk), `"metadata":`...)
	head = append(append(head, m...), `,"items":[`...)
	return func(yield func([]byte, error) bool) {
		if !yield(head, nil) {
			return
		}
		for i, it := range items {
			b, err := encode(it)
			if err != nil {
				yield(nil, err)
				return
			}
			before := []byte(nil)
			if i > 0 {
				before = comma
			}
			if rest, ok := bytes.CutPrefix(b, itemHead); ok && itemHead != nil {
				before, b = openBrace, rest
				if i > 0 {
					before = commaBrace
				}
			}
			if !yield(before, nil) || !yield(b, nil) {
				return
			}
		}
		yield(listEnd, nil)
	}
}

var openBrace, commaBrace = []byte("{"), []byte(",{")

var errSizeChanged = errors.New("an item of a list has changed its encoded size")

// protobufList returns a list of items of kind gvk. It encodes every item twice, unless the cache keeps the encoding: the size of the
// list comes before its items.
func protobufList(gvk schema.GroupVersionKind, meta metav1.ListMeta, items []*cache.Item, encode encoder) (Pieces, error) {
	m, err := meta.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode list metadata: %w", err)
	}
	gvk.Kind += "List"
	size := fieldSize(len(m))
	for _, it := range items {
		b, err := bodyOf(it, encode)
		if err != nil {
			return nil, err
		}
		size += fieldSize(len(b))
	}
	head := appendField(envelopeHead(gvk, size), tagListMeta, m)
	left := size - fieldSize(len(m))
	return func(yield func([]byte, error) bool) {
		if !yield(head, nil) {
			return
		}
		left := left
		for _, it := range items {
			b, err := bodyOf(it, encode)
			if left -= fieldSize(len(b)); err == nil && left < 0 {
				err = errSizeChanged
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(binary.AppendUvarint([]byte{tagItem}, uint64(len(b))), nil) || !yield(b, nil) {
				return
			}
		}
		if left > 0 {
			yield(nil, errSizeChanged)
			return
		}
		yield(envelopeTail, nil)
	}, nil
}

// bodyOf returns an item in protobuf without the envelope.
func bodyOf(it *cache.Item, encode encoder) ([]byte, error) {
	b, err := encode(it)
	if err != nil {
		return nil, err
	}
	return envelopeBody(b)
}
