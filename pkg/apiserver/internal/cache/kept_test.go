package cache

import (
	"runtime"
	"testing"
	"weak"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

func TestKept(t *testing.T) {
	k := &encodingCache{limit: 100}
	items := make([]*Item, 5)
	for i := range items {
		items[i] = &Item{kept: k}
		items[i].encoded = &[encodings]encoded{JSON: {bytes: make([]byte, 30)}}
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

// TestKeptDoesNotRetainItems adds an item that nothing else refers to.
func TestKeptDoesNotRetainItems(t *testing.T) {
	k := &encodingCache{limit: 100}
	i := &Item{kept: k}
	i.encoded = &[encodings]encoded{JSON: {bytes: make([]byte, 30)}}
	k.add(i, 30)
	p := weak.Make(i)
	i = nil
	runtime.GC()
	if p.Value() != nil {
		t.Error("an item is in memory because of its encodings")
	}
	runtime.KeepAlive(k)
}

// TestDroppedEncodingInUseIsReused drops a large encoding that a reader holds, and again when no reader holds it.
func TestDroppedEncodingInUseIsReused(t *testing.T) {
	k := &encodingCache{limit: 2 * largeEncoding}
	i := &Item{kept: k, object: &corev1.Secret{}}
	made := 0
	read := func() []byte {
		b, err := i.Encoded(JSON, func(objects.Object) ([]byte, error) {
			made++
			return make([]byte, largeEncoding), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := read()
	k.drop()
	if again := read(); made != 1 || &again[0] != &b[0] || k.size != largeEncoding {
		t.Errorf("encoded %d times while a reader holds the bytes; %d bytes are kept", made, k.size)
	}
	runtime.KeepAlive(b)
	k.drop()
	runtime.GC()
	if read(); made != 2 {
		t.Errorf("encoded %d times, want again after the last reader has ended", made)
	}
}
