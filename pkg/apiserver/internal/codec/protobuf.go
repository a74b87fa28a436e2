package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The envelope of a protobuf body is a runtime.Unknown after the magic bytes. Its fields have a fixed order, so that the
// object's bytes can be inserted and extracted without decoding the envelope.
const (
	tagTypeMeta   = 0x0a // Unknown.typeMeta, and TypeMeta.apiVersion
	tagKind       = 0x12 // TypeMeta.kind
	tagRaw        = 0x12 // Unknown.raw
	tagListMeta   = 0x0a // metadata of every list
	tagItem       = 0x12 // items of every list
	tagEventType  = 0x0a // WatchEvent.type
	tagEventObj   = 0x12 // WatchEvent.object
	tagExtRaw     = 0x0a // RawExtension.raw
	emptyEncoding = 0x1a // Unknown.contentEncoding
	emptyType     = 0x22 // Unknown.contentType
)

// envelopeTail ends the envelope: an empty content encoding and an empty content type.
var envelopeTail = []byte{emptyEncoding, 0, emptyType, 0}

var errEnvelope = errors.New("not a protobuf envelope")

func appendField(b []byte, tag byte, value []byte) []byte {
	b = append(b, tag)
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

func fieldSize(n int) int { return 1 + len(binary.AppendUvarint(nil, uint64(n))) + n }

// envelopeHead returns the part of the envelope before an object of size bytes.
func envelopeHead(gvk schema.GroupVersionKind, size int) []byte {
	var tm []byte
	tm = appendField(tm, tagTypeMeta, []byte(gvk.GroupVersion().String()))
	tm = appendField(tm, tagKind, []byte(gvk.Kind))
	b := slices.Clone(protobufMagic)
	b = appendField(b, tagTypeMeta, tm)
	b = append(b, tagRaw)
	return binary.AppendUvarint(b, uint64(size))
}

// envelopeBody returns the object's bytes in an envelope with the head of envelopeHead.
func envelopeBody(b []byte) ([]byte, error) {
	rest, ok := bytes.CutPrefix(b, protobufMagic)
	if !ok {
		return nil, errEnvelope
	}
	_, rest, ok = cutField(rest, tagTypeMeta)
	if !ok {
		return nil, errEnvelope
	}
	raw, _, ok := cutField(rest, tagRaw)
	if !ok {
		return nil, errEnvelope
	}
	return raw, nil
}

func cutField(b []byte, tag byte) (value, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != tag {
		return nil, nil, false
	}
	n, used := binary.Uvarint(b[1:])
	if used <= 0 || n > uint64(len(b)-1-used) {
		return nil, nil, false
	}
	b = b[1+used:]
	return b[:n], b[n:], true
}
