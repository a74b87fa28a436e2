// Package storetest is the suite that every store driver passes: one test per promise of the contract in package store, and a model
// test with concurrent writers, watches and paged reads.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/backup"
)

// Open opens the store of a test. Opening it again after Close, with the same dir, gives the same content unless the driver is
// volatile.
type Open func(t *testing.T, dir string) store.Store

// Options name the promises that a driver does not make.
type Options struct {
	Volatile bool // Close loses the content
}

// Run tests the stores that open returns against the contract.
func Run(t *testing.T, open Open, opts Options) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s store.Store)
	}{
		{"get", testGet}, {"expectations", testExpectations}, {"batch", testBatch}, {"list", testList},
		{"paged list", testPagedList}, {"past", testPast}, {"watch", testWatch}, {"watch from the past", testWatchPast},
		{"watch prefix", testWatchPrefix}, {"watch from far behind", testWatchFarBehind},
		{"watch from too far behind", testWatchTooFarBehind}, {"compact", testCompact}, {"future", testFuture},
		{"recreate", testRecreate}, {"backup", testBackup}, {"object", testObject}, {"close ends watches", testCloseEndsWatches}, {"model", testModel},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := open(t, t.TempDir())
			defer s.Close()
			test.run(t, s)
		})
	}
	if !opts.Volatile {
		t.Run("reopen", func(t *testing.T) { testReopen(t, open) })
		t.Run("head survives compacted deletions", func(t *testing.T) { testHeadSurvives(t, open) })
	}
}

func put(t *testing.T, s store.Store, key, value string, expect store.Expect) store.Revision {
	t.Helper()
	revs, err := s.Write(t.Context(), store.Op{Key: key, Value: []byte(value), Expect: expect})
	if err != nil {
		t.Fatalf("write %s: %v", key, err)
	}
	return revs[0]
}

func remove(t *testing.T, s store.Store, key string) store.Revision {
	t.Helper()
	revs, err := s.Write(t.Context(), store.Op{Key: key})
	if err != nil {
		t.Fatalf("delete %s: %v", key, err)
	}
	return revs[0]
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func testGet(t *testing.T, s store.Store) {
	_, err := s.Get(t.Context(), "a/1", 0)
	wantErr(t, "get of an absent key", err, store.ErrNotFound)
	rev := put(t, s, "a/1", "one", store.Absent())
	got, err := s.Get(t.Context(), "a/1", 0)
	if err != nil || string(got.Value) != "one" || got.Modified != rev || got.Created != rev || got.Key != "a/1" {
		t.Errorf("get: got %+v, %v", got, err)
	}
	next := put(t, s, "a/1", "two", store.At(rev))
	got, err = s.Get(t.Context(), "a/1", 0)
	if err != nil || string(got.Value) != "two" || got.Modified != next || got.Created != rev || next <= rev {
		t.Errorf("get after update: got %+v, %v", got, err)
	}
	if head, err := s.Head(t.Context()); err != nil || head != next {
		t.Errorf("head: got %d, %v, want %d", head, err, next)
	}
}

func testExpectations(t *testing.T, s store.Store) {
	rev := put(t, s, "a", "1", store.Any())
	for _, c := range []struct {
		name string
		op   store.Op
	}{
		{"create what exists", store.Op{Key: "a", Value: []byte("x"), Expect: store.Absent()}},
		{"update at an old revision", store.Op{Key: "a", Value: []byte("x"), Expect: store.At(rev + 100)}},
		{"update what does not exist", store.Op{Key: "b", Value: []byte("x"), Expect: store.At(rev)}},
		{"delete at another revision", store.Op{Key: "a", Expect: store.At(rev + 1)}},
	} {
		_, err := s.Write(t.Context(), c.op)
		wantErr(t, c.name, err, store.ErrConflict)
		var conflict *store.Conflict
		if errors.As(err, &conflict) && conflict.Key != c.op.Key {
			t.Errorf("%s: conflict names %q", c.name, conflict.Key)
		}
	}
	if got, err := s.Get(t.Context(), "a", 0); err != nil || string(got.Value) != "1" {
		t.Errorf("a conflict changed the value: %+v, %v", got, err)
	}
	if revs, err := s.Write(t.Context(), store.Op{Key: "nothing"}); err != nil || revs[0] != 0 {
		t.Errorf("delete of nothing: got %v, %v", revs, err)
	}
}

func testBatch(t *testing.T, s store.Store) {
	put(t, s, "b", "old", store.Absent())
	_, err := s.Write(t.Context(),
		store.Op{Key: "a", Value: []byte("1"), Expect: store.Absent()},
		store.Op{Key: "b", Value: []byte("2"), Expect: store.Absent()})
	wantErr(t, "batch with a conflict", err, store.ErrConflict)
	_, err = s.Get(t.Context(), "a", 0)
	wantErr(t, "first op of a refused batch", err, store.ErrNotFound)
	revs, err := s.Write(t.Context(), store.Op{Key: "a", Value: []byte("1")}, store.Op{Key: "b"}, store.Op{Key: "c", Value: []byte("3")})
	if err != nil || revs[0] == 0 || revs[1] <= revs[0] || revs[2] <= revs[1] {
		t.Errorf("batch: got revisions %v, %v", revs, err)
	}
	page, err := s.List(t.Context(), "", store.ListOptions{})
	if err != nil || len(page.Entries) != 2 || page.Entries[0].Key != "a" || page.Entries[1].Key != "c" {
		t.Errorf("after batch: got %+v, %v", page, err)
	}
}

func testList(t *testing.T, s store.Store) {
	for _, k := range []string{"p/b", "p/a", "q/a", "p/c", "o/z"} {
		put(t, s, k, k, store.Absent())
	}
	page, err := s.List(t.Context(), "p/", store.ListOptions{})
	if err != nil || page.More || fmt.Sprint(keys(page)) != "[p/a p/b p/c]" {
		t.Errorf("list: got %v more=%v, %v", keys(page), page.More, err)
	}
	if page, err = s.List(t.Context(), "nothing/", store.ListOptions{}); err != nil || len(page.Entries) != 0 || page.Revision == 0 {
		t.Errorf("empty list: got %+v, %v", page, err)
	}
}

func keys(p store.Page) []string {
	var out []string
	for _, e := range p.Entries {
		out = append(out, e.Key)
	}
	return out
}

func testPagedList(t *testing.T, s store.Store) {
	for i := range 25 {
		put(t, s, fmt.Sprintf("p/%02d", i), "v", store.Absent())
	}
	first, err := s.List(t.Context(), "p/", store.ListOptions{Limit: 10})
	if err != nil || len(first.Entries) != 10 || !first.More {
		t.Fatalf("first page: %d entries, more=%v, %v", len(first.Entries), first.More, err)
	}
	remove(t, s, "p/15")
	put(t, s, "p/155", "new", store.Absent())
	var got []string
	for page := first; ; {
		got = append(got, keys(page)...)
		if !page.More {
			break
		}
		if page, err = s.List(t.Context(), "p/", store.ListOptions{Limit: 10, After: got[len(got)-1], At: first.Revision}); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 25 || got[15] != "p/15" {
		t.Errorf("pages do not show the first page's revision: %v", got)
	}
}

func testPast(t *testing.T, s store.Store) {
	one := put(t, s, "k", "1", store.Absent())
	two := put(t, s, "k", "2", store.Any())
	gone := remove(t, s, "k")
	for at, want := range map[store.Revision]string{one: "1", two: "2"} {
		if got, err := s.Get(t.Context(), "k", at); err != nil || string(got.Value) != want {
			t.Errorf("get at %d: got %q, %v", at, got.Value, err)
		}
	}
	_, err := s.Get(t.Context(), "k", gone)
	wantErr(t, "get at the deletion", err, store.ErrNotFound)
	if page, err := s.List(t.Context(), "", store.ListOptions{At: two}); err != nil || len(page.Entries) != 1 || page.Revision != two {
		t.Errorf("list in the past: got %+v, %v", page, err)
	}
}

func testRecreate(t *testing.T, s store.Store) {
	put(t, s, "k", "1", store.Absent())
	remove(t, s, "k")
	rev := put(t, s, "k", "2", store.Absent())
	if got, err := s.Get(t.Context(), "k", 0); err != nil || got.Created != rev {
		t.Errorf("recreated key: got %+v, %v, want created %d", got, err, rev)
	}
}

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

func testCompact(t *testing.T, s store.Store) {
	one := put(t, s, "k", "1", store.Absent())
	two := put(t, s, "k", "2", store.Any())
	three := put(t, s, "other", "x", store.Absent())
	if err := s.Compact(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	_, err := s.Get(t.Context(), "k", one)
	wantErr(t, "get below the compacted revision", err, store.ErrCompacted)
	_, err = s.List(t.Context(), "", store.ListOptions{At: one})
	wantErr(t, "list below the compacted revision", err, store.ErrCompacted)
	for _, err := range s.Watch(t.Context(), "", one) {
		wantErr(t, "watch from below the compacted revision", err, store.ErrCompacted)
		break
	}
	for _, at := range []store.Revision{two, three, 0} {
		if got, err := s.Get(t.Context(), "k", at); err != nil || string(got.Value) != "2" {
			t.Errorf("get at %d after compaction: got %q, %v", at, got.Value, err)
		}
	}
	if got := events(t, s, "", two, 1); got[0].Revision != three {
		t.Errorf("watch from the compacted revision: got %+v", got)
	}
	if err := s.Compact(t.Context(), one); err != nil {
		t.Errorf("compacting to an older revision: %v", err)
	}
}

func testFuture(t *testing.T, s store.Store) {
	rev := put(t, s, "k", "1", store.Absent())
	_, err := s.Get(t.Context(), "k", rev+10)
	wantErr(t, "get in the future", err, store.ErrFuture)
	for _, err := range s.Watch(t.Context(), "", rev+10) {
		wantErr(t, "watch from the future", err, store.ErrFuture)
		break
	}
	wantErr(t, "compact in the future", s.Compact(t.Context(), rev+10), store.ErrFuture)
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

func testReopen(t *testing.T, open Open) {
	dir := t.TempDir()
	s := open(t, dir)
	one := put(t, s, "k", "1", store.Absent())
	two := put(t, s, "k", "2", store.At(one))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	defer s.Close()
	if head, err := s.Head(t.Context()); err != nil || head != two {
		t.Errorf("head after reopen: got %d, %v, want %d", head, err, two)
	}
	if got, err := s.Get(t.Context(), "k", one); err != nil || string(got.Value) != "1" {
		t.Errorf("past value after reopen: got %q, %v", got.Value, err)
	}
	if got := events(t, s, "", 0, 2); got[1].PrevRev != one || string(got[1].Prev) != "1" {
		t.Errorf("changes after reopen: got %+v", got)
	}
	if three := put(t, s, "k", "3", store.At(two)); three <= two {
		t.Errorf("revision %d after %d", three, two)
	}
}

func testHeadSurvives(t *testing.T, open Open) {
	dir := t.TempDir()
	s := open(t, dir)
	var last store.Revision
	for i := range 100 {
		put(t, s, fmt.Sprint("k", i), "v", store.Absent())
	}
	for i := range 100 {
		last = remove(t, s, fmt.Sprint("k", i))
	}
	if err := s.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, dir)
	defer s.Close()
	if head, err := s.Head(t.Context()); err != nil || head < last {
		t.Errorf("head went back to %d, %v; it was %d", head, err, last)
	}
	for _, err := range s.Watch(t.Context(), "", 1) {
		wantErr(t, "watch from before a compaction of an earlier run", err, store.ErrCompacted)
		break
	}
}

// testBackup backs a store up while it is written to: the backup is the list at its revision.
func testBackup(t *testing.T, s store.Store) {
	for i := range 600 {
		put(t, s, fmt.Sprintf("k/%03d", i), fmt.Sprint("v", i), store.Any())
	}
	remove(t, s, "k/300")
	var b bytes.Buffer
	changed := &changing{Store: s, t: t}
	sum, err := backup.Write(t.Context(), changed, &b)
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.List(t.Context(), "", store.ListOptions{At: sum.Revision})
	if err != nil {
		t.Fatal(err)
	}
	var got []store.Entry
	read, err := backup.Read(&b, func(e store.Entry) error { got = append(got, e); return nil })
	if err != nil || read != sum {
		t.Fatalf("read: %v, %v, want %v", read, err, sum)
	}
	if !reflect.DeepEqual(got, page.Entries) || sum.Objects != 599 {
		t.Errorf("the backup has %d objects, the store %d at revision %d", len(got), len(page.Entries), sum.Revision)
	}
	if changed.lists < 2 {
		t.Error("the store was not changed during the backup")
	}
}

// changing changes the store before each list but the first.
type changing struct {
	store.Store
	t     *testing.T
	lists int
}

func (c *changing) List(ctx context.Context, prefix string, opts store.ListOptions) (store.Page, error) {
	if c.lists++; c.lists > 1 {
		put(c.t, c.Store, "k/599", "changed", store.Any())
		put(c.t, c.Store, fmt.Sprint("k/9", c.lists), "new", store.Any())
	}
	return c.Store.List(ctx, prefix, opts)
}
