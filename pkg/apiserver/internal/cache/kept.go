package cache

import "sync"

// keptLimit bounds the encodings that are kept, in bytes.
const keptLimit = 64 << 20

// kept holds the items that have encodings, oldest first. Encodings are there to be shared by all who list and watch at
// about the same time; when there are too many, the oldest are made again when somebody asks.
type kept struct {
	mu    sync.Mutex
	items []keptItem
	size  int
	limit int
}

type keptItem struct {
	item *Item
	size int
}

// add notes that an item keeps so many more bytes. It is called without the item's lock.
func (k *kept) add(i *Item, size int) {
	k.mu.Lock()
	k.items = append(k.items, keptItem{i, size})
	k.size += size
	var out []keptItem
	for n := 0; k.size > k.limit; n++ {
		k.size -= k.items[n].size
		out = k.items[:n+1]
	}
	k.items = k.items[len(out):]
	k.mu.Unlock()
	forget(out)
	clear(out) // the memory behind may live on for a while
}

// drop forgets all encodings.
func (k *kept) drop() {
	k.mu.Lock()
	out := k.items
	k.items, k.size = nil, 0
	k.mu.Unlock()
	forget(out)
}

func forget(items []keptItem) {
	for _, i := range items {
		i.item.mu.Lock()
		i.item.encoded = nil
		i.item.mu.Unlock()
	}
}
