package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/store"
)

// events reads from a watch until n events have come.
func events(t *testing.T, s store.Store, prefix string, from store.Revision, n int) []store.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out []store.Event
	for b, err := range s.Watch(ctx, prefix, from) {
		if err != nil {
			t.Fatalf("watch: %v after %d of %d events", err, len(out), n)
		}
		if out = append(out, b.Events...); len(out) >= n {
			return out
		}
	}
	t.Fatalf("watch ended after %d of %d events", len(out), n)
	return nil
}

func testWatch(t *testing.T, s store.Store) {
	type result struct{ events []store.Event }
	done := make(chan result, 1)
	start := put(t, s, "w/0", "0", store.Absent())
	go func() { done <- result{events(t, s, "w/", start, 3)} }()
	one := put(t, s, "w/1", "a", store.Absent())
	two := put(t, s, "w/1", "b", store.At(one))
	three := remove(t, s, "w/1")
	got := (<-done).events
	if len(got) != 3 {
		t.Fatalf("got %d events", len(got))
	}
	check := func(i int, ev store.Event, want store.Event) {
		if ev.Revision != want.Revision || string(ev.Value) != string(want.Value) || (ev.Value == nil) != (want.Value == nil) ||
			string(ev.Prev) != string(want.Prev) || ev.PrevRev != want.PrevRev || ev.Created != want.Created {
			t.Errorf("event %d: got %+v, want %+v", i, ev, want)
		}
	}
	check(0, got[0], store.Event{Revision: one, Created: one, Value: []byte("a")})
	check(1, got[1], store.Event{Revision: two, Created: one, Value: []byte("b"), Prev: []byte("a"), PrevRev: one})
	check(2, got[2], store.Event{Revision: three, Prev: []byte("b"), PrevRev: two})
}

func testWatchPast(t *testing.T, s store.Store) {
	for i := range 50 {
		put(t, s, fmt.Sprintf("w/%d", i%7), fmt.Sprint(i), store.Any())
	}
	got := events(t, s, "", 0, 50)
	for i, ev := range got {
		if string(ev.Value) != fmt.Sprint(i) {
			t.Fatalf("event %d is %q", i, ev.Value)
		}
	}
}

func testWatchPrefix(t *testing.T, s store.Store) {
	put(t, s, "a/1", "x", store.Absent())
	last := put(t, s, "b/1", "x", store.Absent())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for b, err := range s.Watch(ctx, "c/", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Events) != 0 {
			t.Fatalf("events of other keys: %+v", b.Events)
		}
		if b.Revision == last {
			break // the watch reports its revision although nothing matched
		}
	}
	if got := events(t, s, "b/", 0, 1); got[0].Key != "b/1" {
		t.Errorf("got %+v", got)
	}
}

// testWatchFarBehind watches from before more changes than a driver keeps in memory for its watches.
func testWatchFarBehind(t *testing.T, s store.Store) {
	const keys, versions, most = 200, 15, 1 << 20
	value := strings.Repeat("v", 4<<10)
	want := map[store.Revision]string{}
	for n := range versions {
		for i := range keys {
			put(t, s, fmt.Sprintf("b/%d", i), value, store.Any())
			if i%2 == 0 {
				rev := put(t, s, fmt.Sprintf("a/%d", i), fmt.Sprint(n, value), store.Any())
				want[rev] = fmt.Sprint(n, value)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got, last := 0, store.Revision(0)
	for b, err := range s.Watch(ctx, "a/", 0) {
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, ev := range b.Events {
			if ev.Revision <= last || string(ev.Value) != want[ev.Revision] || (ev.PrevRev == 0) != (got < keys/2) || string(ev.Prev) != want[ev.PrevRev] {
				t.Fatalf("change %d: got %s at %d after %d, with a value before from %d", got, ev.Key, ev.Revision, last, ev.PrevRev)
			}
			got, last = got+1, ev.Revision
			size += len(ev.Value) + len(ev.Prev)
		}
		if size > most {
			t.Errorf("a batch has %d bytes of values, want %d at most", size, most)
		}
		if got >= len(want) {
			break
		}
	}
	if got != len(want) {
		t.Errorf("got %d changes, want %d", got, len(want))
	}
}

// testWatchTooFarBehind watches from 60,000 revisions ago: one of ten prefixes, in batches of bounded size, and all of
// them, which fails because a new list is faster.
func testWatchTooFarBehind(t *testing.T, s store.Store) {
	const revisions, prefixes, most = 60_000, 10, 1 << 20
	value := []byte(strings.Repeat("v", 1<<10)) // the changes of a prefix have 12 MiB, with the values before
	for batch := range revisions / 500 {
		var ops []store.Op
		for i := range 500 {
			op := store.Op{Key: fmt.Sprintf("o/%d/%d", i%prefixes, i), Value: []byte(fmt.Sprint(batch))}
			if i%prefixes == 3 {
				op.Value = value
			}
			ops = append(ops, op)
		}
		if _, err := s.Write(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	got := 0
	for b, err := range s.Watch(t.Context(), "o/3/", 0) {
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, ev := range b.Events {
			if want := store.Revision(got*prefixes + 4); ev.Revision != want || len(ev.Value) != len(value) {
				t.Fatalf("change %d has revision %d and %d bytes, want %d and %d", got, ev.Revision, len(ev.Value), want, len(value))
			}
			got++
			size += len(ev.Value) + len(ev.Prev)
		}
		if size > most {
			t.Errorf("a batch has %d bytes of values, want %d at most", size, most)
		}
		if len(b.Events) == 0 {
			break
		}
	}
	if got != revisions/prefixes {
		t.Errorf("got %d changes, want %d", got, revisions/prefixes)
	}
	for _, err := range s.Watch(t.Context(), "o/", 0) {
		wantErr(t, "watch of everything from 60,000 revisions ago", err, store.ErrCompacted)
		break
	}
}

func testObject(t *testing.T, s store.Store) {
	marker := &struct{ n int }{1}
	done := make(chan []store.Event, 1)
	start := put(t, s, "first", "x", store.Absent())
	go func() { done <- events(t, s, "", start, 1) }()
	if _, err := s.Write(t.Context(), store.Op{Key: "o", Value: []byte("x"), Object: marker}); err != nil {
		t.Fatal(err)
	}
	if got := (<-done)[0].Object; got != nil && got != any(marker) {
		t.Errorf("watch handed out another object: %v", got)
	}
}

func testCloseEndsWatches(t *testing.T, s store.Store) {
	caught, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for _, err := range s.Watch(context.WithoutCancel(t.Context()), "", 0) {
			if err != nil {
				done <- err
				return
			}
			close(caught)
		}
		done <- nil
	}()
	<-caught
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "watch of a closed store", <-done, store.ErrClosed)
}
