package changelog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
)

// counting is a Past that counts the values that are read.
type counting struct {
	changes   []store.Event // in revision order
	compacted store.Revision
	read      int
}

func (c *counting) Scan(_ context.Context, prefix string, from, to store.Revision, yield func(string, store.Revision) bool) error {
	for i := range c.changes {
		ev := &c.changes[len(c.changes)-1-i] // in reverse order: Scan may yield in any order
		if ev.Revision > from && ev.Revision <= to && strings.HasPrefix(ev.Key, prefix) && !yield(ev.Key, ev.Revision) {
			break
		}
	}
	return nil
}

func (c *counting) Change(_ string, rev store.Revision) (store.Event, error) {
	c.read++
	ev := c.changes[rev-1]
	ev.Value = make([]byte, 2000)
	return ev, nil
}

func (c *counting) Retains(from store.Revision) error {
	if from < c.compacted {
		return store.ErrCompacted
	}
	return nil
}

// past returns n changes of keys that alternate between ten prefixes, and a log that holds none of these changes.
func past(n int) (*counting, *Events) {
	c := &counting{}
	for i := range n {
		c.changes = append(c.changes, store.Event{Key: fmt.Sprintf("o/%d/%d", i%10, i), Revision: store.Revision(i + 1)})
	}
	return c, NewEvents(store.Revision(n), 1<<20, nil)
}

// TestWatchFarBehind watches one of ten kinds from 60,000 revisions ago.
func TestWatchFarBehind(t *testing.T) {
	const all, kinds = 60_000, 10
	c, log := past(all)
	got, largest := 0, 0
	for b, err := range Watch(t.Context(), log, c, "o/3/", 0) {
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for i := range b.Events {
			if want := store.Revision(got*kinds + 4); b.Events[i].Revision != want {
				t.Fatalf("change %d has revision %d, want %d", got, b.Events[i].Revision, want)
			}
			got++
			size += valueBytes(&b.Events[i])
		}
		if largest = max(largest, size); len(b.Events) == 0 {
			if b.Revision != all {
				t.Errorf("the watch has come to %d, want %d", b.Revision, all)
			}
			break
		}
	}
	if got != all/kinds {
		t.Errorf("got %d changes, want %d", got, all/kinds)
	}
	if c.read != got {
		t.Errorf("read %d values for %d changes: other keys are read too", c.read, got)
	}
	if largest > chunkBytes+3000 {
		t.Errorf("a batch has %d bytes, want %d at most", largest, chunkBytes)
	}
}

func TestWatchTooFarBehind(t *testing.T) {
	c, log := past(maxReplay + 1)
	for _, err := range Watch(t.Context(), log, c, "o/", 0) {
		wantErr(t, "watch from too far behind", err, store.ErrCompacted)
		break
	}
	if c.read != 0 {
		t.Errorf("%d values were read", c.read)
	}
	for b, err := range Watch(t.Context(), log, c, "o/", 1) {
		if err != nil || b.Events[0].Revision != 2 {
			t.Errorf("watch from the bound: got %+v, %v", b, err)
		}
		break
	}
}

// TestCompactionDuringReplay compacts the storage while a watch reads from it.
func TestCompactionDuringReplay(t *testing.T) {
	c, log := past(1000)
	seen := store.Revision(0)
	for b, err := range Watch(t.Context(), log, c, "", 0) {
		if err != nil {
			wantErr(t, "watch from a compacted revision", err, store.ErrCompacted)
			break
		}
		if seen != 0 {
			t.Fatalf("got a batch up to %d after everything up to 1000 was compacted", b.Revision)
		}
		seen = b.Revision
		c.compacted = 1000
	}
	if seen == 0 || seen == 1000 {
		t.Errorf("the first batch goes up to %d: the test tests nothing", seen)
	}
}

// TestSlowReaderContinuesFromStorage stalls a reader until the log has dropped its next changes.
func TestSlowReaderContinuesFromStorage(t *testing.T) {
	c, _ := past(100)
	log := NewEvents(0, 2000, nil)
	commit := func(from, to int) {
		for _, ev := range c.changes[from:to] {
			log.Append(ev.Revision, []store.Event{ev})
		}
	}
	commit(0, 3)
	seen := store.Revision(0)
	for b, err := range Watch(t.Context(), log, c, "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range b.Events {
			if seen++; ev.Revision != seen {
				t.Fatalf("got revision %d, want %d", ev.Revision, seen)
			}
		}
		if b.Revision == 2 {
			commit(3, 100)
		}
		if b.Revision == 100 {
			break
		}
	}
	if c.read == 0 {
		t.Error("nothing was read from storage: the test tests nothing")
	}
}

func TestWatchEnds(t *testing.T) {
	c, log := past(10)
	for _, err := range Watch(t.Context(), log, c, "", 11) {
		wantErr(t, "watch from the future", err, store.ErrFuture)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for b, err := range Watch(ctx, log, c, "", 10) {
		if last = err; err == nil && b.Revision == 10 {
			cancel()
		}
	}
	wantErr(t, "watch whose context ends", last, context.Canceled)
	for b, err := range Watch(t.Context(), log, c, "", 10) {
		if last = err; err == nil && b.Revision == 10 {
			log.Close(store.ErrClosed)
		}
	}
	if !errors.Is(last, store.ErrClosed) {
		t.Errorf("watch of a closed log: got %v, want %v", last, store.ErrClosed)
	}
}
