package memory

import (
	"errors"
	"fmt"
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
)

// TestHistoryIsBounded writes the same few keys many times, and repeatedly deletes and creates one, without a call of
// Compact.
func TestHistoryIsBounded(t *testing.T) {
	s := New()
	defer s.Close()
	value := make([]byte, 64<<10)
	for i := range 3000 {
		ops := []store.Op{{Key: fmt.Sprint("k", i%10), Value: value}, {Key: "comes and goes", Value: value}}
		if i%2 == 1 {
			ops[1].Value = nil
		}
		if _, err := s.Write(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	held := 0
	s.keys.Ascend(func(h *history) bool {
		for _, v := range h.versions {
			held += len(v.value)
		}
		return true
	})
	if most := historyBytes + 11*len(value); held > most || held < historyBytes/2 {
		t.Errorf("the store holds %d MiB of values, want %d at most", held>>20, most>>20)
	}
	if _, err := s.Get(t.Context(), "k0", 1); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("get at the first revision: got %v, want %v", err, store.ErrCompacted)
	}
	if page, err := s.List(t.Context(), "", store.ListOptions{At: s.compacted}); err != nil || len(page.Entries) < 10 {
		t.Errorf("list at the compacted revision: got %d entries, %v", len(page.Entries), err)
	}
}
