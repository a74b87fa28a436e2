package cache

import (
	"errors"
	"testing"

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
