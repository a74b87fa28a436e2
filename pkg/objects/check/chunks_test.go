package check

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFewErrors checks that long lists in metadata have errors if and only if an item has one, and not many.
func TestFewErrors(t *testing.T) {
	finalizers := func(n int, bad ...int) *corev1.ConfigMap {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "m", Namespace: "n"}}
		for i := range n {
			m.Finalizers = append(m.Finalizers, fmt.Sprintf("e.com/f%d", i))
		}
		for _, i := range bad {
			m.Finalizers[i] = "no finalizer"
		}
		return m
	}
	owners := func(n int, change func(i int, r *metav1.OwnerReference)) *corev1.ConfigMap {
		m := finalizers(0)
		for i := range n {
			r := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}
			change(i, &r)
			m.OwnerReferences = append(m.OwnerReferences, r)
		}
		return m
	}
	yes := true
	for name, c := range map[string]struct {
		obj      *corev1.ConfigMap
		min, max int // errors
	}{
		"valid finalizers":  {finalizers(4*chunk + 1), 0, 0},
		"the last is bad":   {finalizers(4*chunk+1, 4*chunk), 1, 2},
		"one in the middle": {finalizers(4*chunk, 2*chunk), 1, 2},
		"valid owners":      {owners(3*chunk, func(int, *metav1.OwnerReference) {}), 0, 0},
		"empty owners":      {owners(4*chunk, func(_ int, r *metav1.OwnerReference) { *r = metav1.OwnerReference{} }), chunk, 4 * chunk},
		"two controllers": {owners(4*chunk, func(i int, r *metav1.OwnerReference) {
			if i%(3*chunk) == 0 {
				r.Controller = &yes
			}
		}), 1, 1},
	} {
		errs := Meta(c.obj, true, validation.NameIsDNSSubdomain)
		if len(errs) < c.min || len(errs) > c.max {
			t.Errorf("%s: %d errors", name, len(errs))
		}
	}
	bad := finalizers(4 * chunk)
	for i := range bad.Finalizers {
		bad.Finalizers[i] = fmt.Sprint("s", i)
	}
	if errs := Meta(bad, true, validation.NameIsDNSSubdomain); len(errs) == 0 || len(errs) > 2*chunk {
		t.Errorf("%d errors of %d finalizers", len(errs), len(bad.Finalizers))
	}
}
