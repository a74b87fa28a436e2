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
	text := strings.Repeat("\x0a\x00", 1<<20)
	pod, crd := func() runtime.Object { return &corev1.Pod{} }, func() runtime.Object { return &apiextensionsv1.CustomResourceDefinition{} }
	for name, c := range map[string]struct {
		data    []byte
		into    runtime.Object
		refused bool
	}{
		"empty containers":  {message(1_500_000, containers, nil, spec), pod(), true},
		"empty ports":       {message(1_500_000, ports, nil, spec, containers), pod(), true},
		"empty arguments":   {message(1_500_000, args, nil, spec, containers), pod(), false},
		"many containers":   {message(10_000, containers, nil, spec), pod(), false},
		"many ports":        {message(100_000, ports, nil, spec, containers), pod(), false},
		"a deep schema":     {message(1, openAPI, nested, spec, versions, schemas), crd(), true},
		"a long node name":  {message(1, 10, []byte(text), spec), pod(), false},
		"a large ConfigMap": {message(1, 2, append(message(1, 1, []byte("a")), message(1, 2, []byte(text))...)), &corev1.ConfigMap{}, false},
	} {
		envelope, err := (&runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Pod"}, Raw: c.data}).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		gvk, err := readEnvelope(append([]byte("k8s\x00"), envelope...), c.into)
		if (gvk != schema.GroupVersionKind{Version: "v1", Kind: "Pod"}) || errors.Is(err, errDecoded) != c.refused || !c.refused && err != nil {
			t.Errorf("%s, %d bytes: %v %v", name, len(c.data), gvk, err)
		}
	}
}
