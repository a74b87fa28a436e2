package cache

import (
	"slices"
	"strings"

	"github.com/minikctl/minikctl/pkg/objects"
)

// indexedFields are the selectable fields that tables index.
var indexedFields = []string{"spec.nodeName"}

// index holds the items by the value of one field.
type index struct {
	value func(objects.Object) string
	items map[string]map[string]*Item // by value, then path
}

func (t *Table) buildIndexes() {
	t.indexes = map[string]index{}
	for _, field := range indexedFields {
		if f := t.resource.Selectable[field]; f != nil && !t.resource.Undecoded {
			t.indexes[field] = index{f, map[string]map[string]*Item{}}
		}
	}
	if len(t.indexes) == 0 {
		return
	}
	t.tree.Ascend(func(i *Item) bool {
		t.updateIndexes(nil, i)
		return true
	})
}

func (t *Table) updateIndexes(before, now *Item) {
	for _, ix := range t.indexes {
		if before != nil && before.object != nil {
			ix.drop(ix.value(before.object), before.path)
		}
		if now != nil && now.object != nil {
			ix.put(ix.value(now.object), now)
		}
	}
}

// of returns the value of an item's field; "" without an item or object.
func (ix index) of(i *Item) string {
	if i == nil || i.object == nil {
		return ""
	}
	return ix.value(i.object)
}

func (ix index) put(value string, i *Item) {
	under := ix.items[value]
	if under == nil {
		under = map[string]*Item{}
		ix.items[value] = under
	}
	under[i.path] = i
}

func (ix index) drop(value, path string) {
	delete(ix.items[value], path)
	if len(ix.items[value]) == 0 {
		delete(ix.items, value)
	}
}

// indexed returns the items that have the exact value that a selector requires of an indexed field, in key order. ok is false for a
// selector that requires none.
func (t *Table) indexed(s *Selector) (items []*Item, ok bool) {
	for field, ix := range t.indexes {
		value, exact := s.exact(field)
		if !exact {
			continue
		}
		for _, i := range ix.items[value] {
			items = append(items, i)
		}
		slices.SortFunc(items, func(a, b *Item) int { return strings.Compare(a.path, b.path) })
		return items, true
	}
	return nil, false
}
