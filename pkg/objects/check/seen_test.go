package check

import "testing"

func TestSeen(t *testing.T) {
	var s Seen[int]
	for i := range 3 * few {
		if s.Has(i) || s.Again(i) {
			t.Errorf("%d is seen before it comes", i)
		}
		for j := range i + 1 {
			if !s.Has(j) || !s.Again(j) {
				t.Errorf("%d is missing after %d", j, i)
			}
		}
	}
	if s.Has(-1) {
		t.Error("seen what never came")
	}
}

func TestSeenOfFewDoesNotAllocate(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	if n := testing.AllocsPerRun(10, func() {
		var s Seen[string]
		for _, name := range names {
			s.Again(name)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
