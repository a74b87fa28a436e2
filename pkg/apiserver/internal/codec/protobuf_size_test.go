package codec

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// message returns n times a field of a message that contains another one, inside the fields with the given numbers.
func message(n int, number uint64, inside []byte, at ...uint64) []byte {
	add := func(to []byte, number uint64, inside []byte) []byte {
		to = binary.AppendUvarint(to, number<<3|2)
		return append(binary.AppendUvarint(to, uint64(len(inside))), inside...)
	}
	var out []byte
	for range n {
		out = add(out, number, inside)
	}
	for _, number := range slices.Backward(at) {
		out = add(nil, number, out)
	}
	return out
}

// overlapping returns a schema with n entries of properties, each of which has all that follow it as its value.
func overlapping(n int) []byte {
	var out []byte
	for range n {
		value := append([]byte{0x12}, binary.AppendUvarint(nil, uint64(len(out)))...)
		out = append(append([]byte{0xea, 0x01, byte(len(value))}, value...), out...)
	}
	return out
}

// TestDecodedSize decodes messages that are small for what they become, and others as large. A request has 3 MB at most.
func TestDecodedSize(t *testing.T) {
	const spec, containers, args, ports, versions, schemas, openAPI, not = 2, 2, 4, 6, 7, 4, 1, 28
	var nested []byte // inside out
	for range 100_000 {
		length := binary.AppendUvarint(nil, uint64(len(nested)))
		slices.Reverse(length)
		nested = append(append(nested, length...), 0x01, 0xe2) // not
	}
	slices.Reverse(nested)
	// inMaps is a schema nested through its properties: an entry of the map in the schema in an entry, and so on.
	inMaps := func(depth int) []byte {
		var out []byte // inside out
		for range depth {
			for _, tag := range [][]byte{{0x12}, {0x01, 0xea}} { // the value in an entry, properties in a schema
				length := binary.AppendUvarint(nil, uint64(len(out)))
				slices.Reverse(length)
				out = append(append(out, length...), tag...)
			}
		}
		slices.Reverse(out)
		return out
	}
	group := []byte{0xfb, 0x07, 0xfc, 0x07} // the begin and the end of a group with number 127
	text := strings.Repeat("\x0a\x00", 1<<20)
	pod, crd := func() runtime.Object { return &corev1.Pod{} }, func() runtime.Object { return &apiextensionsv1.CustomResourceDefinition{} }
	inSchema := []uint64{spec, versions, schemas, openAPI}
	for name, c := range map[string]struct {
		data []byte
		into runtime.Object
		want error
	}{
		"empty containers":               {message(1_500_000, containers, nil, spec), pod(), errDecoded},
		"empty containers after a group": {message(1, spec, append(slices.Clone(group), message(1_500_000, containers, nil)...)), pod(), errDecoded},
		"containers with long numbers":   {message(300_000, 1<<32+containers, nil, spec), pod(), errDecoded},
		"empty ports":                    {message(1_500_000, ports, nil, spec, containers), pod(), errDecoded},
		"empty arguments":                {message(1_500_000, args, nil, spec, containers), pod(), nil},
		"many containers":                {message(10_000, containers, nil, spec), pod(), nil},
		"many ports":                     {message(100_000, ports, nil, spec, containers), pod(), nil},
		"a deep schema":                  {message(1, openAPI, nested, spec, versions, schemas), crd(), errNested},
		"a deep schema in maps":          {message(1, openAPI, inMaps(100_000), spec, versions, schemas), crd(), errNested},
		"a less deep schema in maps":     {message(1, openAPI, inMaps(4000), spec, versions, schemas), crd(), nil},
		"schemas in properties":          {message(100_000, 28, nil, append(inSchema, 29, 2)...), crd(), errDecoded}, // not, in a value of properties
		"values of one property":         {message(1_000_000, 2, nil, append(inSchema, 29)...), crd(), errDecoded},
		"properties":                     {message(10_000, 29, []byte("\x0a\x01a\x12\x00"), inSchema...), crd(), nil},
		"a long node name":               {message(1, 10, []byte(text), spec), pod(), nil},
		"a large ConfigMap":              {message(1, 2, append(message(1, 1, []byte("a")), message(1, 2, []byte(text))...)), &corev1.ConfigMap{}, nil},
		"an entry beyond its end":        {append(message(1, 2, []byte{0x0a, 0x05}), message(1, 3, []byte("abc"))...), &corev1.ConfigMap{}, errEntry},
		"a value of another wire type":   {append(message(1, 2, []byte{0x10, 0x05}), message(1, 3, []byte("abc"))...), &corev1.ConfigMap{}, errEntry},
		"overlapping properties":         {message(1, openAPI, overlapping(40), spec, versions, schemas), crd(), errEntry},
	} {
		envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: c.data}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		gvk, err := readEnvelope(append([]byte("k8s\x00"), envelope...), c.into)
		if (gvk != schema.GroupVersionKind{Version: "v1", Kind: "Pod"}) || !errors.Is(err, c.want) {
			t.Errorf("%s, %d bytes: %v %v", name, len(c.data), gvk, err)
		}
	}
}
