package codec

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"
)

// AppendEventHead appends the part of a watch event's frame that precedes its object, which has size bytes in f. EventTail
// is the part that follows it.
func AppendEventHead(b []byte, t watch.EventType, size int, f Format) []byte {
	if f == Protobuf {
		return appendProtobufHead(b, t, size)
	}
	b = append(b, `{"type":"`...)
	b = append(b, t...)
	return append(b, `","object":`...)
}

var jsonEventTail = []byte("}\n")

// EventTail returns the part of a watch event's frame that follows its object. It must not be changed.
func EventTail(f Format) []byte {
	if f == Protobuf {
		return nil
	}
	return jsonEventTail
}

// appendProtobufHead appends a WatchEvent, whose object is a RawExtension, up to the object, after its length in four bytes.
func appendProtobufHead(b []byte, t watch.EventType, size int) []byte {
	ext := fieldSize(size)
	b = binary.BigEndian.AppendUint32(b, uint32(fieldSize(len(t))+fieldSize(ext)))
	b = appendField(b, tagEventType, []byte(t))
	b = append(b, tagEventObj)
	b = binary.AppendUvarint(b, uint64(ext))
	b = append(b, tagExtRaw)
	return binary.AppendUvarint(b, uint64(size))
}

// StreamType returns the Content-Type of a watch in f.
func StreamType(f Format) string {
	if f == Protobuf {
		return MediaProtobuf + ";stream=watch"
	}
	return MediaJSON
}

// Object returns obj, of kind gvk, as a body in m's format. It is for objects that are no items of the cache.
func Object(obj runtime.Object, gvk schema.GroupVersionKind, m Media) ([]byte, error) {
	b, err := Marshal(obj, gvk, m.Encoding())
	if err != nil {
		return nil, err
	}
	return Finish(b, m)
}

// Finish turns an encoded object (JSON or Protobuf) into a body of m's format: as YAML, indented if m is pretty, else with a
// newline.
func Finish(b []byte, m Media) ([]byte, error) {
	switch {
	case m.Format == YAML:
		return yaml.JSONToYAML(b)
	case m.Format == Protobuf:
		return b, nil
	case m.Pretty:
		return indent(b)
	}
	return append(b[:len(b):len(b)], '\n'), nil
}
