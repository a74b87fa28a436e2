package codec

import (
	"encoding/binary"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/yaml"
)

// AppendEvent appends the frame of a watch event to b. object is encoded in f.
func AppendEvent(b []byte, t watch.EventType, object []byte, f Format) []byte {
	if f == Protobuf {
		return appendProtobufEvent(b, t, object)
	}
	b = append(b, `{"type":"`...)
	b = append(b, t...)
	b = append(b, `","object":`...)
	b = append(b, object...)
	return append(b, "}\n"...)
}

// appendProtobufEvent appends a WatchEvent, whose object is a RawExtension, after its length in four bytes.
func appendProtobufEvent(b []byte, t watch.EventType, object []byte) []byte {
	ext := fieldSize(len(object))
	b = binary.BigEndian.AppendUint32(b, uint32(fieldSize(len(t))+fieldSize(ext)))
	b = appendField(b, tagEventType, []byte(t))
	b = append(b, tagEventObj)
	b = binary.AppendUvarint(b, uint64(ext))
	return appendField(b, tagExtRaw, object)
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
