package batch

import (
	"math/rand/v2"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestParseIndexes(t *testing.T) {
	for _, c := range []struct {
		text        string
		completions int
		want        string
		count       int
	}{
		{"", 5, "", 0},
		{"0", 5, "0", 1},
		{"0,1", 5, "0,1", 2},
		{"0,1,2", 5, "0-2", 3},
		{"0-1", 5, "0,1", 2},
		{"1,3-5,7", 9, "1,3-5,7", 5},
		{"1,3-5,7", 5, "1,3,4", 3},
		{"1-3,9", 5, "1-3", 3},
		{"x,2,4-y", 5, "2", 1},
		{"5", 5, "", 0},
	} {
		got := parseIndexes(c.text, c.completions)
		if got.String() != c.want || got.count() != c.count {
			t.Errorf("%q below %d: got %s with %d, want %s with %d", c.text, c.completions, got, got.count(), c.want, c.count)
		}
	}
}

// TestIndexSets compares the set operations with those of plain sets, on random sets.
func TestIndexSets(t *testing.T) {
	const below = 12
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() ([]int, indexes) {
		var list []int
		for i := range below {
			if rng.IntN(2) == 0 {
				list = append(list, i)
			}
		}
		return list, indexesOf(slices.Clone(list)...)
	}
	for range 500 {
		a, x := random()
		b, y := random()
		var union, missing []int
		common := 0
		for i := range below {
			inA, inB := slices.Contains(a, i), slices.Contains(b, i)
			if x.has(i) != inA {
				t.Fatalf("%s has %d: %v", x, i, !inA)
			}
			if inA || inB {
				union = append(union, i)
			}
			if inA && inB {
				common++
			}
			if !inA && len(missing) < 3 {
				missing = append(missing, i)
			}
		}
		u := x.union(y)
		if u.String() != indexesOf(union...).String() || u.count() != len(union) || parseIndexes(u.String(), below).String() != u.String() {
			t.Fatalf("union of %s and %s: %s", x, y, u)
		}
		if x.common(y) != common {
			t.Fatalf("%s and %s have %d in common, not %d", x, y, common, x.common(y))
		}
		if got := x.missing(3, below); !slices.Equal(got, missing) {
			t.Fatalf("missing from %s: %v, want %v", x, got, missing)
		}
	}
	if got := indexesOf(2, 40).missing(5, 4); !slices.Equal(got, []int{0, 1, 3}) {
		t.Errorf("with an index beyond the completions: %v", got)
	}
}

func TestCompletionIndex(t *testing.T) {
	for text, want := range map[string]int{"": noIndex, "0": 0, "17": 17, "-1": noIndex, "1.5": noIndex} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{batchv1.JobCompletionIndexAnnotation: text}}}
		if got := completionIndex(p); got != want {
			t.Errorf("%q: got %d, want %d", text, got, want)
		}
	}
	if got := completionIndex(&corev1.Pod{}); got != noIndex {
		t.Errorf("without annotation: %d", got)
	}
}

func TestIndexedPrefix(t *testing.T) {
	long := ""
	for len(long) < 63 {
		long += "a"
	}
	for _, c := range [][3]string{{"job", "0", "job-0-"}, {long, "12", long[:54] + "-12-"}, {long[:55], "1", long[:55] + "-1-"}} {
		if got := indexedPrefix(c[0], c[1]); got != c[2] || len(got) > maxPrefix {
			t.Errorf("%s: got %s, want %s", c[0], got, c[2])
		}
	}
}
