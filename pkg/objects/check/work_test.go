package check

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestWork compiles short and long expressions up to the bound.
func TestWork(t *testing.T) {
	for length, most := range map[int]int{0: 4096, 64: 4096, 65: 4032, 1 << 10: 256, 200 << 10: 1} {
		w := NewWork()
		source := strings.Repeat("e", length)
		for i := range most {
			if ok, errs := w.Compile(source, field.NewPath("a")); !ok || len(errs) > 0 {
				t.Fatalf("expression %d of %d bytes: %v", i, length, errs)
			}
		}
		if ok, errs := w.Compile(source, field.NewPath("a")); ok || len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "a: Forbidden: ") {
			t.Errorf("expression %d of %d bytes: %v %v", most, length, ok, errs)
		}
		if ok, errs := w.Compile("", field.NewPath("a")); ok || len(errs) > 0 {
			t.Errorf("the one after it: %v %v", ok, errs)
		}
	}
}
