// Package ring owns the recent changes of a store in memory: a linked list of committed batches, bounded by bytes, from
// which any number of watches read without queues of their own. A reader only holds its place in the list; one that
// falls behind the oldest batch kept is told ErrCompacted.
package ring

import (
	"context"
	"iter"
	"strings"
	"sync"

	"github.com/minikctl/minikctl/pkg/store"
)

// Ring is the list. The zero value is not usable; see New. It is safe for concurrent use.
type Ring struct {
	mu     sync.Mutex
	behind *node // the batch before first, for readers that go on with first; nil while there is none
	first  *node // the oldest batch that is kept, or an empty node
	last   *node
	bytes  int
	limit  int
	end    chan struct{} // closed by Close
	done   bool
}

// node is one batch. next is nil, and more open, until there is a following batch.
type node struct {
	batch store.Batch
	after store.Revision // the revision before the batch: a reader that has seen it may go on here
	size  int
	next  *node
	more  chan struct{}
	cut   bool // what followed is no longer kept
}

// New returns a ring of up to limit bytes of values whose next batch follows revision head.
func New(head store.Revision, limit int) *Ring {
	empty := &node{batch: store.Batch{Revision: head}, after: head, more: make(chan struct{})}
	return &Ring{first: empty, last: empty, limit: limit, end: make(chan struct{})}
}

// Append adds a committed batch and wakes the readers once. Batches come in revision order.
func (r *Ring) Append(b store.Batch) {
	n := &node{batch: b, more: make(chan struct{})}
	for _, ev := range b.Events {
		n.size += len(ev.Key) + len(ev.Value) + len(ev.Prev)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n.after = r.last.batch.Revision
	r.bytes += n.size
	for r.bytes > r.limit && r.first != r.last {
		r.bytes -= r.first.size
		r.drop()
	}
	last := r.last
	last.next, r.last = n, n
	close(last.more)
}

// drop gives up the oldest batch, and cuts off the one before it.
func (r *Ring) drop() {
	if r.behind != nil {
		r.behind.next, r.behind.cut = nil, true
	}
	r.behind, r.first = r.first, r.first.next
}

// Close ends all reads with ErrClosed.
func (r *Ring) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		r.done = true
		close(r.end)
	}
}

// Older yields, from a driver's own storage, the changes after from up to and with to, as one or more batches.
type Older func(ctx context.Context, from, to store.Revision) iter.Seq2[store.Batch, error]

// Watch is the Watch of a store: what comes after from. What the ring no longer has is read through older, which reports
// ErrCompacted for what is gone altogether.
func (r *Ring) Watch(ctx context.Context, prefix string, from store.Revision, older Older) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		at, seen, err := r.enter(from)
		if err != nil {
			yield(store.Batch{}, err)
			return
		}
		if from < seen {
			for b, err := range older(ctx, from, seen) {
				if err == nil {
					b = matching(b, prefix)
				}
				if !yield(b, err) || err != nil {
					return
				}
			}
		}
		r.follow(ctx, prefix, from, at, yield)
	}
}

// enter finds the place in the list to go on from after revision from: the node whose successors are all wanted. seen is
// the revision that the place stands for; when it is above from, what is between must be read elsewhere first.
func (r *Ring) enter(from store.Revision) (at *node, seen store.Revision, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from > r.last.batch.Revision {
		return nil, 0, store.ErrFuture
	}
	if from < r.first.after {
		return r.last, r.last.batch.Revision, nil
	}
	// The first node may have to be read itself, so stand before it.
	return &node{batch: store.Batch{Revision: r.first.after}, next: r.first, more: closed}, r.first.after, nil
}

// closed is the wake-up of a node that has a successor from the start.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// follow yields what comes after at, leaving out what is at or before from.
func (r *Ring) follow(ctx context.Context, prefix string, from store.Revision, at *node, yield func(store.Batch, error) bool) {
	told := false // that the reader has caught up
	for {
		next, dropped := r.next(at)
		if dropped {
			yield(store.Batch{}, store.ErrCompacted)
			return
		}
		if next == nil {
			if !told && !yield(store.Batch{Revision: at.batch.Revision}, nil) {
				return
			}
			told = true
			select {
			case <-at.more:
				continue
			case <-ctx.Done():
				yield(store.Batch{}, ctx.Err())
				return
			case <-r.end:
				yield(store.Batch{}, store.ErrClosed)
				return
			}
		}
		at = next
		b := matching(after(at.batch, from), prefix)
		if len(b.Events) == 0 {
			told = false
			continue
		}
		told = true
		if !yield(b, nil) {
			return
		}
	}
}

// next returns the batch after at, nil when there is none yet, or dropped when at has fallen out of the ring so that what
// followed it may be gone too.
func (r *Ring) next(at *node) (next *node, dropped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.next == nil {
		return nil, at.cut
	}
	return at.next, at.next.after < r.first.after
}

// after leaves out the events at or before from.
func after(b store.Batch, from store.Revision) store.Batch {
	for len(b.Events) > 0 && b.Events[0].Revision <= from {
		b.Events = b.Events[1:]
	}
	return b
}

// matching leaves out the events whose key does not start with prefix. The given batch is not changed.
func matching(b store.Batch, prefix string) store.Batch {
	n := 0
	for _, ev := range b.Events {
		if strings.HasPrefix(ev.Key, prefix) {
			n++
		}
	}
	if n == len(b.Events) {
		return b
	}
	out := store.Batch{Revision: b.Revision}
	if n > 0 {
		out.Events = make([]store.Event, 0, n)
	}
	for _, ev := range b.Events {
		if strings.HasPrefix(ev.Key, prefix) {
			out.Events = append(out.Events, ev)
		}
	}
	return out
}
