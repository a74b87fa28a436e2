package track

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/minikctl/minikctl/pkg/internal/measured"
	"github.com/minikctl/minikctl/pkg/objects"
)

// withLabels is a pod with n labels, of which some differ by step.
func withLabels(n, step int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{}}}
	for i := 0; i < n; i += 1 + step {
		p.Labels[fmt.Sprintf("k%06d", i*7919%n)] = fmt.Sprint(i % (2 + step))
	}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "A", Value: fmt.Sprint(step)}}}}
	return p
}

// TestOrdered compares the library's field sets of an object with and without sorted maps.
func TestOrdered(t *testing.T) {
	c, err := newConverter(&podRow)
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.of(&corev1.Pod{})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][2]*typed.TypedValue{}
	for i, p := range []*corev1.Pod{withLabels(2*large, 0), withLabels(2*large, 1)} {
		p.APIVersion, p.Kind = "v1", "Pod"
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range map[string]func() (*typed.TypedValue, error){
			"typed, as it is":        func() (*typed.TypedValue, error) { return v.merge.FromStructured(p) },
			"typed, in order":        func() (*typed.TypedValue, error) { return mapsSorted.typed(v.merge, p, nil) },
			"unstructured, as it is": func() (*typed.TypedValue, error) { return v.merge.FromUnstructured(content) },
			"unstructured, in order": func() (*typed.TypedValue, error) {
				return allSorted.typed(v.merge, &unstructured.Unstructured{Object: content}, nil)
			},
			"unstructured, converted": func() (*typed.TypedValue, error) {
				return c.inOrder(mapsSorted).ObjectToTyped(&unstructured.Unstructured{Object: content})
			},
		} {
			pair := values[name]
			if pair[i], err = f(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			values[name] = pair
		}
	}
	for _, kind := range []string{"typed", "unstructured"} {
		plain := values[kind+", as it is"]
		fields, err := plain[0].ToFieldSet()
		if err != nil {
			t.Fatal(err)
		}
		changes, err := plain[0].Compare(plain[1])
		if err != nil {
			t.Fatal(err)
		}
		merged, err := plain[0].Merge(plain[1])
		if err != nil {
			t.Fatal(err)
		}
		for name, pair := range values {
			if !strings.HasPrefix(name, kind) {
				continue
			}
			if got, err := pair[0].ToFieldSet(); err != nil || !got.Equals(fields) {
				t.Errorf("%s: other fields, %v", name, err)
			}
			for _, other := range []*typed.TypedValue{pair[1], plain[1]} {
				got, err := pair[0].Compare(other)
				if err != nil || !got.Added.Equals(changes.Added) || !got.Modified.Equals(changes.Modified) || !got.Removed.Equals(changes.Removed) {
					t.Errorf("%s: other changes, %v", name, err)
				}
				if got, err := pair[0].Merge(other); err != nil || !reflect.DeepEqual(got.AsValue().Unstructured(), merged.AsValue().Unstructured()) {
					t.Errorf("%s: merged differently, %v", name, err)
				}
			}
		}
	}
}

// TestManyLabels compares the time of writes with 5,000 and 50,000 labels: it must not grow with the square.
func TestManyLabels(t *testing.T) {
	measured.Only(t)
	tracker := New(clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)))
	cost := func(n int) time.Duration {
		began := time.Now()
		var p objects.Object = withLabels(n, 0)
		if err := tracker.Update(Write{Resource: &podRow, Manager: fmt.Sprint(began)}, nil, p); err != nil {
			t.Fatal(err)
		}
		return time.Since(began)
	}
	few, many := time.Hour, time.Hour
	for range 10 { // the least of each: other work on the machine only adds to them
		few, many = min(few, cost(5_000)), min(many, cost(50_000))
	}
	t.Logf("5,000 labels: %v, 50,000: %v", few, many)
	if many > 30*few {
		t.Errorf("ten times as many labels cost %v, that is %.0f times as much", many, float64(many)/float64(few))
	}
}
