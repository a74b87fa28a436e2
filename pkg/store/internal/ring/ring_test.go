package ring

import (
	"errors"
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
)

// appendTo appends batches of one change each, up to revision last.
func appendTo(r *Ring, last store.Revision) {
	for rev := r.last.batch.Revision + 1; rev <= last; rev++ {
		r.Append(store.Batch{Revision: rev, Events: []store.Event{{Key: "k", Value: make([]byte, 99), Revision: rev}}})
	}
}

func TestReaderThatStandsStill(t *testing.T) {
	r := New(0, 1000) // ten batches
	appendTo(r, 3)
	var held *node
	seen := 0
	for b, err := range r.Watch(t.Context(), "", 0, nil) {
		if err != nil {
			if !errors.Is(err, store.ErrCompacted) || seen != 1 {
				t.Errorf("got %v after %d batches, want %v after 1", err, seen, store.ErrCompacted)
			}
			break
		}
		if seen++; b.Revision != 1 {
			t.Fatalf("got revision %d, want 1", b.Revision)
		}
		held = r.first
		appendTo(r, 100)
	}
	kept := 0
	for n := held; n.next != nil; n = n.next {
		kept++
	}
	if kept > 0 {
		t.Errorf("a reader's place keeps %d batches in memory", kept)
	}
}

// TestReaderAtTheEdge goes on from the place just before the oldest batch that is kept.
func TestReaderAtTheEdge(t *testing.T) {
	r := New(0, 1000)
	appendTo(r, 10)
	want := store.Revision(1)
	for b, err := range r.Watch(t.Context(), "", 0, nil) {
		if err != nil || b.Revision != want {
			t.Fatalf("got revision %d %v, want %d", b.Revision, err, want)
		}
		if want++; want == 31 {
			break
		}
		appendTo(r, min(b.Revision+10, 30)) // the batch that was just read is given up
	}
}
