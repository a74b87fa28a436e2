package cache

import (
	"strings"

	"github.com/google/btree"
)

// Release drops the changes and encodings that an idle server does not need, and copies the small objects that remain to memory
// side by side. Scattered among freed ones, they would keep most of the heap pages of a busy server in use.
func (c *Cache) Release() {
	c.Trim(c.Revision())
	for _, t := range c.all() {
		if t.resource.Undecoded && !t.resource.Custom() {
			t.compact()
		}
	}
}

// compactItems is the number of items in a block. A block is freed when all of its items are removed, which for Events and
// Leases is soon after the first.
const compactItems = 256

// compact copies the items of a table that is not kept decoded into blocks.
func (t *Table) compact() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.tree == nil {
		return
	}
	old := make([]*Item, 0, t.tree.Len())
	t.tree.Ascend(func(i *Item) bool {
		old = append(old, i)
		return true
	})
	tree := btree.NewG(treeDegree, byPath)
	for len(old) > 0 {
		n := min(compactItems, len(old))
		t.copyItems(tree, old[:n])
		old = old[n:]
	}
	t.tree = tree
}

// copyItems adds copies of items to a tree, in blocks of their own.
func (t *Table) copyItems(tree *btree.BTreeG[*Item], items []*Item) {
	size := 0
	var paths strings.Builder
	for _, i := range items {
		size += len(i.value)
		paths.WriteString(i.path)
	}
	values, text, block := make([]byte, 0, size), paths.String(), make([]Item, len(items))
	for n, i := range items {
		from := len(values)
		values = append(values, i.value...)
		value := values[from:len(values):len(values)]
		path := text[:len(i.path)]
		text = text[len(i.path):]
		to := &block[n]
		to.Key, to.Revision, to.path, to.size, to.sum = keyOf(path), i.Revision, path, i.size, i.sum
		to.value, to.plain, to.kept = value, i.plain, i.kept
		to.decode = t.decoder(value, i.Revision)
		tree.ReplaceOrInsert(to)
	}
}
