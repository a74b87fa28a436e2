package httpapi

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
)

func TestHeldObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeldObjects(100)
		a, b, large := heldKey{item: &cache.Item{}}, heldKey{item: &cache.Item{}}, heldKey{item: &cache.Item{}}
		take := func(user string, key heldKey, size int) {
			t.Helper()
			if err := h.take(t.Context(), user, key, size); err != nil {
				t.Fatal(err)
			}
		}
		take("slow", a, 60)
		take("slow", a, 60) // shares the bytes
		take("other", b, 60)
		gone, cancel := context.WithCancel(t.Context())
		go cancel()
		if err := h.take(gone, "slow", b, 60); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v beyond the bound", err)
		}
		done := false
		go func() {
			take("slow", b, 60)
			done = true
		}()
		h.release("slow", a)
		if synctest.Wait(); done {
			t.Error("an object counts no longer although a watch still writes it")
		}
		h.release("slow", a)
		if synctest.Wait(); !done {
			t.Error("a watch waits although the bound permits its object")
		}
		h.release("slow", b)
		h.release("other", b)
		take("slow", large, 500) // alone
		h.release("slow", large)
		if len(h.users) != 0 {
			t.Errorf("%d users are left", len(h.users))
		}
	})
}
