package cache

import (
	"reflect"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/changelog"
)

// logBytes bounds the memory of the recent changes of all tables together.
const logBytes = 16 << 20

// change is one change of a table. now is nil after a delete, before is nil for a create. gone is the deleted object
// with the revision of its deletion. lost is the key of a deleted value that could not be decoded: there is no object to show, so
// that watches of its namespace end, and their clients list again.
type change struct {
	revision          store.Revision
	now, before, gone *Item
	lost              *objects.Key
	bytes             int // see retained
}

type (
	changes = changelog.Log[change]
	place   = changelog.Place[change]
)

// retained returns the memory that only the log's entry of a change keeps alive: the item that was replaced or deleted.
// Each item except the current one was replaced by exactly one change, so it counts once. The earlier change that added
// the item to the tree is dropped first.
func (c *change) retained() int {
	n := 0
	if c.before != nil {
		n += c.before.memory()
	}
	if c.gone != nil { // a shallow copy of before
		n += itemBytes
		if c.gone.object != nil {
			n += int(reflect.TypeOf(c.gone.object).Elem().Size())
		}
	}
	return n
}

// newLog returns the log of a table. Its first change has a revision after after.
func (t *Table) newLog(after store.Revision) *changes {
	return changelog.New(t.cache.budget, changelog.Accounting[change]{Size: func(c *change) int { return c.bytes }}, after)
}
