package cache

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
	"github.com/minikctl/minikctl/pkg/store"
)

// TestListBeforeCompaction lists at a revision since which nothing has changed: it is gone once the store was compacted beyond it.
func TestListBeforeCompaction(t *testing.T) {
	c := newCluster(t, 1<<20)
	c.write("a", "1")
	first := c.write("b", "1").Revision
	row := objects.Row(core.Secrets)
	other := c.Add(&row)
	c.writeTo(other, "x", "1")
	newest := c.writeTo(other, "x", "2").Revision
	for _, compacted := range []bool{false, true} {
		if compacted {
			c.Trim(newest)
		}
		page, err := c.table.ListAt(t.Context(), &Selector{}, "n/a", 10, first)
		if compacted != errors.Is(err, store.ErrCompacted) || !compacted && len(page.Items) != 1 {
			t.Errorf("compacted: %v: got %d items, %v", compacted, len(page.Items), err)
		}
		if page, err := c.table.ListAt(t.Context(), &Selector{}, "", 10, newest); err != nil || len(page.Items) != 2 {
			t.Errorf("compacted: %v: at the compacted revision: got %d items, %v", compacted, len(page.Items), err)
		}
	}
}

// counting is a store that counts the bytes of the values that it returns.
type counting struct {
	store.Store
	listed, largest, got int // by List, by one List, and by Get
}

func (s *counting) List(ctx context.Context, prefix string, opts store.ListOptions) (store.Page, error) {
	page, err := s.Store.List(ctx, prefix, opts)
	size := 0
	for _, e := range page.Entries {
		size += len(e.Value)
	}
	s.listed += size
	s.largest = max(s.largest, size)
	return page, err
}

func (s *counting) Get(ctx context.Context, key string, at store.Revision) (store.Entry, error) {
	e, err := s.Store.Get(ctx, key, at)
	s.got += len(e.Value)
	return e, err
}

// TestListAtReadsWhatItReturns lists large objects at a past revision. A page reads the values of its own objects that have changed since, and
// holds none of them.
func TestListAtReadsWhatItReturns(t *testing.T) {
	const size, maps = 1 << 20, 8
	c := newCluster(t, 1<<10) // the log does not show that nothing has changed
	for i := range maps {
		c.write(fmt.Sprint(i), "old"+strings.Repeat("v", size))
	}
	past := c.Revision()
	reads := &counting{Store: c.store}
	c.store = reads
	if _, err := c.table.All(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if reads.largest > fillBytes+2*size {
		t.Errorf("the table is filled by reads of %d bytes", reads.largest)
	}
	for i := range 4 {
		c.write(fmt.Sprint(i), "new")
	}
	*reads = counting{Store: reads.Store}
	before := live()
	page, err := c.table.ListAt(t.Context(), &Selector{}, "", 2, past)
	if err != nil || len(page.Items) != 2 || page.Remaining != maps-2 {
		t.Fatalf("got %d items, %d remaining, %v", len(page.Items), page.Remaining, err)
	}
	if reads.listed > 0 || reads.got > 4*size {
		t.Errorf("a page of two lists values of %d bytes and reads %d", reads.listed, reads.got)
	}
	if held := live() - before; held > size/2 {
		t.Errorf("a page of two holds %d bytes", held)
	}
	for _, i := range page.Items {
		obj, err := i.Object()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := i.Encoded(JSON, func(objects.Object) ([]byte, error) { return make([]byte, size), nil }); err != nil || c.kept.size > 0 {
			t.Errorf("%s: its encoding takes %d bytes of those that lists share, %v", i.Key, c.kept.size, err)
		}
		if m := obj.(*corev1.ConfigMap); !strings.HasPrefix(m.Data["k"], "old") || m.ResourceVersion != formatRevision(i.Revision) {
			t.Errorf("%s: got %.3q at %s, want the past object", i.Key, m.Data["k"], m.ResourceVersion)
		}
	}
}

// live returns the bytes of the heap that are in use.
func live() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
