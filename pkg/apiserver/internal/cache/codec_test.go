package cache

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"github.com/minikctl/minikctl/pkg/objects"
)

var podRow = objects.Row(objects.Def[*corev1.Pod]{
	Names:      objects.Names{Version: "v1", Kind: "Pod", Plural: "pods"},
	New:        func() *corev1.Pod { return &corev1.Pod{} },
	NewList:    func() runtime.Object { return &corev1.PodList{} },
	Selectable: map[string]func(*corev1.Pod) string{"spec.nodeName": func(p *corev1.Pod) string { return p.Spec.NodeName }},
})

// The stored bytes equal those of the API's own serializer, and decode to the same object.
func TestEncode(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	library := serializer.NewSerializer(scheme, scheme)
	for _, size := range []int{0, 1, 100, 200, 20000} {
		pod := &corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"a": string(make([]byte, size))}},
		}
		got, err := Encode(podRow.Names.GVK(), pod)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := library.Encode(pod, &want); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("size %d: got %d bytes, the library writes %d others", size, len(got), want.Len())
		}
		if len(got) != cap(got) {
			t.Errorf("size %d: the buffer has %d bytes too many", size, cap(got)-len(got))
		}
		back, err := decode(&podRow, got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(objects.Object(pod), back); diff != "" {
			t.Errorf("size %d: read back (-was +is): %s", size, diff)
		}
	}
}

func TestDecodeBroken(t *testing.T) {
	for _, value := range []string{"", "{", "k8s\x00", "k8s\x00\xff\xff", "nonsense"} {
		if obj, err := decode(&podRow, []byte(value)); err == nil && value != "k8s\x00" {
			t.Errorf("%q was read as %v", value, obj)
		}
	}
}

func FuzzKey(f *testing.F) {
	for _, name := range []string{"web", "system:node:x", "a b", "100%", "ü", "%41", ""} {
		f.Add("default", name)
		f.Add("", name)
	}
	f.Fuzz(func(t *testing.T, namespace, name string) {
		if bytes.ContainsAny([]byte(namespace), "/%") || !plain(namespace) {
			t.Skip("no name of a namespace")
		}
		key := objects.Key{Namespace: namespace, Name: name}
		path := pathOf(key)
		for i := range len(path) {
			if path[i] <= ' ' || path[i] >= 0x7f {
				t.Fatalf("path %q is not printable ASCII", path)
			}
		}
		if got := keyOf(path); got != key {
			t.Errorf("%v became %q and then %v", key, path, got)
		}
		if full := Prefix(podRow.Names.GR()) + path; PrefixOf(full) != "o/core/pods/" {
			t.Errorf("the prefix of %q is %q", full, PrefixOf(full))
		}
	})
}
