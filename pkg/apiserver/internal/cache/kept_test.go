package cache

import (
	"runtime"
	"testing"
	"weak"
)

func TestKept(t *testing.T) {
	k := &kept{limit: 100}
	items := make([]*Item, 5)
	for i := range items {
		items[i] = &Item{kept: k}
		items[i].encoded = &[encodings][]byte{JSON: make([]byte, 30)}
		k.add(items[i], 30)
	}
	for i, item := range items {
		if have := item.encoded != nil; have != (i >= 2) {
			t.Errorf("item %d: kept %v", i, have)
		}
	}
	if k.drop(); items[4].encoded != nil || k.size != 0 {
		t.Error("not everything was dropped")
	}
}

// TestKeptPinsNoItems adds an item that nothing else refers to.
func TestKeptPinsNoItems(t *testing.T) {
	k := &kept{limit: 100}
	i := &Item{kept: k}
	i.encoded = &[encodings][]byte{JSON: make([]byte, 30)}
	k.add(i, 30)
	p := weak.Make(i)
	i = nil
	runtime.GC()
	if p.Value() != nil {
		t.Error("an item is in memory because of its encodings")
	}
	runtime.KeepAlive(k)
}
