// Package storetest is the suite that every store driver passes: one test per promise of the contract in package store, and a model
// test with concurrent writers, watches and paged reads.
package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
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
		{"get", testGet}, {"expectations", testExpectations}, {"batch", testBatch}, {"too large", testTooLarge}, {"list", testList},
		{"paged list", testPagedList}, {"bounded list", testBoundedList}, {"past", testPast}, {"watch", testWatch}, {"watch from the past", testWatchPast},
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

func testTooLarge(t *testing.T, s store.Store) {
	for _, op := range []store.Op{
		{Key: strings.Repeat("k", store.MaxKey+1), Value: []byte("1")},
		{Key: strings.Repeat("k", 70_000), Value: []byte("1")},
		{Key: strings.Repeat("k", 70_000)},
		{Key: "k", Value: make([]byte, store.MaxValue+1)},
	} {
		_, err := s.Write(t.Context(), store.Op{Key: "other", Value: []byte("1")}, op)
		wantErr(t, fmt.Sprintf("key of %d bytes, value of %d", len(op.Key), len(op.Value)), err, store.ErrTooLarge)
	}
	put(t, s, "k", "1", store.Absent())
	put(t, s, "other", "1", store.Absent())
	longest := strings.Repeat("k", store.MaxKey)
	put(t, s, longest, "2", store.Absent())
	if got, err := s.Get(t.Context(), longest, 0); err != nil || string(got.Value) != "2" {
		t.Errorf("longest key: got %q, %v", got.Value, err)
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
	if revs, err := s.Write(t.Context()); err != nil || len(revs) > 0 {
		t.Errorf("batch without ops: got revisions %v, %v", revs, err)
	}
	if head, err := s.Head(t.Context()); err != nil || head != page.Revision {
		t.Errorf("after a batch without ops: got revision %d, %v, want %d", head, err, page.Revision)
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

// testBoundedList lists pages that end by their bytes, and keys without values.
func testBoundedList(t *testing.T, s store.Store) {
	for i, size := range []int{1, 9, 30, 1, 1} {
		put(t, s, fmt.Sprint("p/", i), strings.Repeat("v", size), store.Absent())
	}
	var got []string
	opts := store.ListOptions{Bytes: 10, Limit: 3}
	for more := true; more; {
		page, err := s.List(t.Context(), "p/", opts)
		if err != nil || len(page.Entries) == 0 {
			t.Fatalf("after %q: got %d entries, %v", opts.After, len(page.Entries), err)
		}
		got = append(got, fmt.Sprint(keys(page)))
		more, opts.After = page.More, page.Entries[len(page.Entries)-1].Key
	}
	if want := "[p/0 p/1] [p/2] [p/3 p/4]"; strings.Join(got, " ") != want {
		t.Errorf("pages of 10 bytes: got %v, want %s", got, want)
	}
	page, err := s.List(t.Context(), "p/", store.ListOptions{Bytes: 10, Limit: 4, Keys: true})
	if err != nil || len(page.Entries) != 4 || !page.More {
		t.Fatalf("keys: got %d entries, more=%v, %v", len(page.Entries), page.More, err)
	}
	for _, e := range page.Entries {
		full, err := s.Get(t.Context(), e.Key, 0)
		if want := (store.Entry{Key: full.Key, Modified: full.Modified}); err != nil || !reflect.DeepEqual(e, want) {
			t.Errorf("keys: got %+v, want %+v; %v", e, want, err)
		}
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
