package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/store"
)

// testModel lets writers compete for few keys while watches from any revision, and paged lists, read. In the end every watch must
// have yielded the one global order, and every list must equal the model at its revision.
func testModel(t *testing.T, s store.Store) {
	const writers, watchers, lists, writesEach = 8, 12, 10, 120
	m := &model{state: map[store.Revision]store.Event{}}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() { m.write(t, s, rand.New(rand.NewPCG(uint64(w), 1)), writesEach) })
	}
	seen := make([]*watchLog, watchers)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var watching sync.WaitGroup
	for w := range watchers {
		head, err := s.Head(ctx)
		if err != nil {
			t.Fatal(err)
		}
		seen[w] = &watchLog{from: store.Revision(rand.Uint64N(uint64(head) + 1)), upTo: make(chan store.Revision, 1)}
		watching.Go(func() { seen[w].follow(t, ctx, s) })
	}
	pages := make([]store.Page, lists)
	for i := range lists {
		all.Go(func() { pages[i] = pagedList(t, s) })
	}
	all.Wait()
	last, err := s.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range seen {
		tr.upTo <- last
	}
	put(t, s, "end", "end", store.Any()) // wakes the watches once more
	watching.Wait()
	order := m.order()
	for i, tr := range seen {
		tr.check(t, i, order, last)
	}
	for _, p := range pages {
		m.checkPage(t, order, p)
	}
}

// model holds the acknowledged writes.
type model struct {
	mu        sync.Mutex
	state     map[store.Revision]store.Event
	conflicts int
}

func (m *model) write(t *testing.T, s store.Store, rng *rand.Rand, n int) {
	for i := range n {
		key := fmt.Sprintf("m/%02d", rng.IntN(20))
		cur, err := s.Get(t.Context(), key, 0)
		expect := store.At(cur.Modified)
		if errors.Is(err, store.ErrNotFound) {
			expect = store.Absent()
		} else if err != nil {
			t.Errorf("get: %v", err)
			return
		}
		op := store.Op{Key: key, Value: fmt.Appendf(nil, "%d-%d", rng.Uint32(), i), Expect: expect}
		if cur.Modified != 0 && rng.IntN(5) == 0 {
			op.Value = nil
		}
		revs, err := s.Write(t.Context(), op)
		m.mu.Lock()
		switch {
		case errors.Is(err, store.ErrConflict):
			m.conflicts++
		case err != nil:
			t.Errorf("write: %v", err)
		default:
			m.state[revs[0]] = store.Event{Key: key, Value: op.Value, Revision: revs[0], PrevRev: cur.Modified, Prev: cur.Value}
		}
		m.mu.Unlock()
	}
}

func (m *model) order() []store.Event {
	revs := slices.Sorted(maps.Keys(m.state))
	out := make([]store.Event, len(revs))
	for i, r := range revs {
		out[i] = m.state[r]
	}
	return out
}

func (m *model) checkPage(t *testing.T, order []store.Event, p store.Page) {
	want := map[string]string{}
	for _, ev := range order {
		if ev.Revision > p.Revision {
			break
		}
		if want[ev.Key] = string(ev.Value); ev.Value == nil {
			delete(want, ev.Key)
		}
	}
	got := map[string]string{}
	for _, e := range p.Entries {
		got[e.Key] = string(e.Value)
	}
	if !maps.Equal(got, want) {
		t.Errorf("paged list at %d: got %v, want %v", p.Revision, got, want)
	}
}

func pagedList(t *testing.T, s store.Store) store.Page {
	all, err := s.List(t.Context(), "m/", store.ListOptions{Limit: 3})
	for page := all; err == nil && page.More; {
		page, err = s.List(t.Context(), "m/", store.ListOptions{Limit: 3, At: all.Revision, After: page.Entries[len(page.Entries)-1].Key})
		all.Entries = append(all.Entries, page.Entries...)
	}
	if err != nil {
		t.Errorf("paged list: %v", err)
	}
	return all
}

// watchLog holds the events of one watch.
type watchLog struct {
	from   store.Revision
	upTo   chan store.Revision
	events []store.Event
}

func (tr *watchLog) follow(t *testing.T, ctx context.Context, s store.Store) {
	end := store.Revision(0)
	for b, err := range s.Watch(ctx, "m/", tr.from) {
		if err != nil {
			t.Errorf("watch: %v", err)
			return
		}
		tr.events = append(tr.events, b.Events...)
		select {
		case end = <-tr.upTo:
		default:
		}
		if end != 0 && b.Revision >= end {
			return
		}
	}
}

func (tr *watchLog) check(t *testing.T, i int, order []store.Event, last store.Revision) {
	want := slices.Clone(order)
	want = slices.DeleteFunc(want, func(ev store.Event) bool { return ev.Revision <= tr.from || ev.Revision > last })
	if len(tr.events) != len(want) {
		t.Errorf("watch %d from %d: saw %d changes, want %d", i, tr.from, len(tr.events), len(want))
		return
	}
	for j, ev := range tr.events {
		w := want[j]
		if ev.Revision != w.Revision || ev.Key != w.Key || string(ev.Value) != string(w.Value) || ev.PrevRev != w.PrevRev || string(ev.Prev) != string(w.Prev) {
			t.Errorf("watch %d, change %d: got %+v, want %+v", i, j, ev, w)
			return
		}
	}
}
