package cache

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/minikctl/minikctl/pkg/objects"
)

func podWith(n int) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%d", n), Namespace: "default", Labels: map[string]string{"app": fmt.Sprint("web-", n)},
			ManagedFields:     []metav1.ManagedFieldsEntry{{Manager: "kubectl", FieldsV1: &metav1.FieldsV1{Raw: make([]byte, 900)}}},
			CreationTimestamp: metav1.Now(),
		},
		Spec: corev1.PodSpec{NodeName: "node-1"},
	}
	for i := range 3 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprint("c", i, n), Image: fmt.Sprint("registry.example/image:", n),
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")}},
			Env:       []corev1.EnvVar{{Name: "A", Value: fmt.Sprint(n)}, {Name: "B", Value: fmt.Sprint(n)}},
		})
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: "Ready", Status: "True", LastTransitionTime: metav1.Now()})
	}
	return pod
}

func unstructuredWith(n int) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	u.SetName(fmt.Sprint("widget-", n))
	u.Object["spec"] = map[string]any{"size": int64(n), "tags": []any{fmt.Sprint("t", n), "u"}, "nested": map[string]any{"deep": map[string]any{"value": fmt.Sprint(n)}}}
	return u
}

// TestMemory compares the memory of items with the growth of the heap.
func TestMemory(t *testing.T) {
	for name, object := range map[string]func(int) objects.Object{
		"pods":         func(n int) objects.Object { return podWith(n) },
		"unstructured": func(n int) objects.Object { return unstructuredWith(n) },
	} {
		const count = 2000
		items := make([]*Item, count)
		before := heap()
		for n := range items {
			items[n] = NewItem(objects.Key{Name: "x"}, 1, object(n))
		}
		grown := heap() - before
		sum := 0
		for _, i := range items {
			sum += i.memory()
		}
		if ratio := float64(sum) / float64(grown); ratio < 0.7 || ratio > 1.3 {
			t.Errorf("%s: %d items take %d bytes, but the heap grows by %d", name, count, sum, grown)
		}
		runtime.KeepAlive(items)
	}
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// tree is a type that contains itself.
type tree struct {
	name     string
	children []*tree
	parents  map[string]*tree
}

func TestMemoryOfATypeThatContainsItself(t *testing.T) {
	v := reflect.ValueOf(&tree{name: "abc", children: []*tree{{name: "de"}, {name: "f"}}, parents: map[string]*tree{"g": nil}})
	own := int(reflect.TypeFor[tree]().Size())
	want := 3*own + len("abcdefg") + 2*8 + mapBytes + mapSlots*(16+8+1)
	if got := pointees(v.Type())(v); got != want {
		t.Errorf("got %d bytes, want %d", got, want)
	}
}

func BenchmarkMemory(b *testing.B) {
	for name, obj := range map[string]objects.Object{"pod": podWith(1), "unstructured": unstructuredWith(1)} {
		i := NewItem(objects.Key{Name: "x"}, 1, obj)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				i.memory()
			}
		})
	}
}
