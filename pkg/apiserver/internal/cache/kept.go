package cache

import (
	"sync"
	"weak"
)

// The bounds of the encodings that are kept, in bytes. Lists are repeated. Watches read an encoding at about the same time, and never
// again.
const (
	keptLimit  = 64 << 20
	watchLimit = 8 << 20
)

func newEncodingCache() *encodingCache {
	return &encodingCache{limit: keptLimit, ofWatches: &encodingCache{limit: watchLimit}}
}

// encodingCache lists the items that have encodings, oldest first. Requests that list and watch at about the same time share an
// encoding. When there are too many, the oldest ones are dropped and computed again on demand. The list does not keep
// an item alive.
type encodingCache struct {
	mu    sync.Mutex
	items []keptItem
	size  int
	limit int

	ofWatches *encodingCache // of the encodings for watches; nil: this one is for them
}

type keptItem struct {
	item weak.Pointer[Item]
	size int
}

// add notes that an item keeps size more bytes. The caller does not hold the item's lock.
func (k *encodingCache) add(i *Item, size int) {
	k.mu.Lock()
	k.items = append(k.items, keptItem{weak.Make(i), size})
	k.size += size
	n := 0
	for ; k.size > k.limit; n++ {
		k.size -= k.items[n].size
	}
	dropped := k.items[:n]
	k.items = k.items[n:]
	k.mu.Unlock()
	dropEncodings(dropped)
}

// drop drops all encodings.
func (k *encodingCache) drop() {
	k.mu.Lock()
	dropped := k.items
	k.items, k.size = nil, 0
	k.mu.Unlock()
	dropEncodings(dropped)
	if k.ofWatches != nil {
		k.ofWatches.drop()
	}
}

func dropEncodings(items []keptItem) {
	for _, k := range items {
		if i := k.item.Value(); i != nil {
			i.drop()
		}
	}
}
