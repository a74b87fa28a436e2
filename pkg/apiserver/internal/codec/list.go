package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
)

// Pieces is a body in parts. The parts are shared and must not be changed.
type Pieces [][]byte

// Size returns the length of the body in bytes.
func (p Pieces) Size() int {
	n := 0
	for _, b := range p {
		n += len(b)
	}
	return n
}

// Bytes returns the body in one piece.
func (p Pieces) Bytes() []byte {
	if len(p) == 1 {
		return p[0]
	}
	out := make([]byte, 0, p.Size())
	for _, b := range p {
		out = append(out, b...)
	}
	return out
}

var (
	comma   = []byte(",")
	listEnd = []byte("]}\n")
)

// List returns a list of items of kind k, which shares the items' bytes.
func (k Kind) List(items []*cache.Item, meta metav1.ListMeta, f Format) (Pieces, error) {
	bodies := make([][]byte, len(items))
	for i, it := range items {
		b, err := k.Encode(it, f)
		if err != nil {
			return nil, err
		}
		bodies[i] = b
	}
	if f == Protobuf {
		return protobufList(k.GVK(), meta, bodies)
	}
	m, err := json.Marshal(listMeta(meta, k.Resource.Custom()))
	if err != nil {
		return nil, fmt.Errorf("encode list metadata: %w", err)
	}
	return jsonList(k.GVK(), m, bodies, jsonHead(k.GVK())), nil
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

// jsonList returns a list with metadata m of encoded items of kind gvk. If itemHead is not nil, each item begins with it,
// an apiVersion and a kind, and jsonList removes it.
func jsonList(gvk schema.GroupVersionKind, m []byte, bodies [][]byte, itemHead []byte) Pieces {
	gvk.Kind += "List"
	head := append(jsonHead(gvk), `"metadata":`...)
	head = append(append(head, m...), `,"items":[`...)
	pieces := make(Pieces, 0, 2*len(bodies)+2)
	pieces = append(pieces, head)
	for i, b := range bodies {
		if i > 0 {
			pieces = append(pieces, comma)
		}
		if rest, ok := bytes.CutPrefix(b, itemHead); ok && itemHead != nil {
			pieces = append(pieces, openBrace, rest)
		} else {
			pieces = append(pieces, b)
		}
	}
	return append(pieces, listEnd)
}

var openBrace = []byte("{")

func protobufList(gvk schema.GroupVersionKind, meta metav1.ListMeta, bodies [][]byte) (Pieces, error) {
	m, err := meta.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode list metadata: %w", err)
	}
	gvk.Kind += "List"
	size := fieldSize(len(m))
	for i := range bodies {
		if bodies[i], err = envelopeBody(bodies[i]); err != nil {
			return nil, err
		}
		size += fieldSize(len(bodies[i]))
	}
	pieces := make(Pieces, 0, 2*len(bodies)+2)
	pieces = append(pieces, appendField(envelopeHead(gvk, size), tagListMeta, m))
	for _, b := range bodies {
		pieces = append(pieces, binary.AppendUvarint([]byte{tagItem}, uint64(len(b))), b)
	}
	return append(pieces, envelopeTail), nil
}
