package storetest

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/backup"
)

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
