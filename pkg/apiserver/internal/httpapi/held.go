package httpapi

import (
	"context"
	"sync"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
)

// heldBytes bounds the large objects that wait for the slow watches of one user, in stored bytes.
const heldBytes = 32 << 20

// writtenObjects are the large objects that are being written to watches. An object that several watches of a user write in
// the same format counts once, since they share its bytes. A watch that would exceed the user's bound waits until another
// watch of that user releases its object: it has written the object, or has ended because its client reads nothing. It is safe for
// concurrent use.
type writtenObjects struct {
	limit int

	mu    sync.Mutex
	users map[string]*heldByUser
}

// heldKey identifies the encoding of an object.
type heldKey struct {
	item    *cache.Item
	format  codec.Format
	partial bool
	watch   *frames // the only watch that has the encoding; nil: watches share it
}

type heldByUser struct {
	bytes   int
	objects map[heldKey]*heldObject
	changed chan struct{} // closed when bytes decreases; nil: no watch waits
}

type heldObject struct{ size, watches int }

func newHeldObjects(limit int) *writtenObjects {
	return &writtenObjects{limit: limit, users: map[string]*heldByUser{}}
}

// take notes that a watch of user writes an object, and waits first if the user's watches hold too much. Without an error
// the caller must call release. An object larger than the bound is written alone.
func (h *writtenObjects) take(ctx context.Context, user string, key heldKey, size int) error {
	for {
		wait := h.tryTake(user, key, size)
		if wait == nil {
			return nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryTake returns nil if it has noted the object, else a channel that is closed when another attempt may succeed.
func (h *writtenObjects) tryTake(user string, key heldKey, size int) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.users[user]
	if u == nil {
		u = &heldByUser{objects: map[heldKey]*heldObject{}}
		h.users[user] = u
	}
	if o := u.objects[key]; o != nil {
		o.watches++
		return nil
	}
	if u.bytes > 0 && u.bytes+size > h.limit {
		if u.changed == nil {
			u.changed = make(chan struct{})
		}
		return u.changed
	}
	u.objects[key] = &heldObject{size: size, watches: 1}
	u.bytes += size
	return nil
}

// release notes that a watch has written the object of take.
func (h *writtenObjects) release(user string, key heldKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.users[user]
	o := u.objects[key]
	if o.watches--; o.watches > 0 {
		return
	}
	delete(u.objects, key)
	u.bytes -= o.size
	if u.changed != nil {
		close(u.changed)
		u.changed = nil
	}
	if len(u.objects) == 0 {
		delete(h.users, user)
	}
}
