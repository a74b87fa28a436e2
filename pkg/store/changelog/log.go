// Package changelog owns the lists of recent changes that watches read: of a store (Watch), of a table of the API server's
// cache, and of the virtual resources.
//
// A Log is a linked list of batches in revision order. A watch holds a Place, the position between two batches. A Place pins
// no changes: a reader that stands still costs the same whatever follows it. Logs share a Budget of bytes; when it is
// exceeded the oldest batch of all of them is dropped, and a reader whose next batch was dropped gets store.ErrCompacted.
//
// Reading takes no lock. Everything that changes a log takes the lock of its Budget.
package changelog

import (
	"container/list"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/minikctl/minikctl/pkg/store"
)

// Budget bounds the bytes that a group of logs holds together. It is safe for concurrent use.
type Budget struct {
	mu      sync.Mutex
	limit   int
	used    int
	batches list.List // of dropper: the log of each batch, in the order of Append
}

// dropper is a Log of any type.
type dropper interface{ dropOldest() }

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int) *Budget { return &Budget{limit: limit} }

// Used returns the bytes that the logs hold.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Cost accounts for the memory of changes. Hold returns the bytes that a log pins from now on with a change, Release the
// bytes that it no longer pins. Both run under the budget's lock, so that they may keep count of what changes share.
type Cost[C any] struct{ Hold, Release func(*C) int }

// Fixed is the cost of changes that share nothing.
func Fixed[C any](size func(*C) int) Cost[C] { return Cost[C]{Hold: size, Release: size} }

// Log is a list of batches of changes. New makes one. It is safe for concurrent use, but for one thing: batches are appended in
// the order of their revisions.
type Log[C any] struct {
	budget *Budget
	cost   Cost[C]
	oldest atomic.Pointer[Place[C]] // before the oldest batch
	newest atomic.Pointer[Place[C]] // behind the newest batch
}

// Batch is a group of changes that were committed together. It is immutable.
type Batch[C any] struct {
	Changes  []C
	Revision store.Revision // everything up to here comes before the batch's end
	After    *Place[C]      // the place behind the batch

	err    error         // not nil: there is no batch, and will be none
	queued *list.Element // in Budget.batches
}

// Place is a position in a log: behind one batch and before the next. It is safe for concurrent use.
type Place[C any] struct {
	Revision store.Revision // changes behind the place are newer
	next     atomic.Pointer[Batch[C]]
	ready    chan struct{} // closed once next is set
}

func newPlace[C any](rev store.Revision) *Place[C] {
	return &Place[C]{Revision: rev, ready: make(chan struct{})}
}

// Next returns the batch behind the place, or nil while there is none. The error says why there will be none:
// store.ErrCompacted when it was dropped, else what the log was closed with.
func (p *Place[C]) Next() (*Batch[C], error) {
	b := p.next.Load()
	if b != nil && b.err != nil {
		return nil, b.err
	}
	return b, nil
}

// Ready is closed once Next returns a batch or an error.
func (p *Place[C]) Ready() <-chan struct{} { return p.ready }

// New returns a log whose first batch follows revision after.
func New[C any](b *Budget, cost Cost[C], after store.Revision) *Log[C] {
	l := &Log[C]{budget: b, cost: cost}
	p := newPlace[C](after)
	l.oldest.Store(p)
	l.newest.Store(p)
	return l
}

// overhead is the memory of a batch besides its changes: the batch, the place behind it with its channel, the list element.
const overhead = 320

// frame returns the bytes of a batch without what its changes point to.
func (b *Batch[C]) frame() int {
	var c C
	return overhead + cap(b.Changes)*int(unsafe.Sizeof(c))
}

// Append adds a batch, whose last change is of revision rev, and wakes the readers that wait for it. The log owns changes
// from here on. When the budget is exceeded the oldest batches of its logs are dropped, but not this one.
func (l *Log[C]) Append(rev store.Revision, changes []C) {
	batch := &Batch[C]{Changes: changes, Revision: rev, After: newPlace[C](rev)}
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	before := l.newest.Load()
	if before.next.Load() != nil {
		return // the log is closed
	}
	batch.queued = b.batches.PushBack(l)
	b.used += batch.frame()
	for i := range changes {
		b.used += l.cost.Hold(&changes[i])
	}
	l.newest.Store(batch.After)
	before.next.Store(batch)
	close(before.ready)
	for b.used > b.limit && b.batches.Len() > 1 {
		b.batches.Front().Value.(dropper).dropOldest()
	}
}

// dropOldest gives up the log's oldest batch. The budget's lock is held.
func (l *Log[C]) dropOldest() {
	p := l.oldest.Load()
	batch := p.next.Load()
	l.budget.batches.Remove(batch.queued)
	l.budget.used -= batch.frame()
	for i := range batch.Changes {
		l.budget.used -= l.cost.Release(&batch.Changes[i])
	}
	l.oldest.Store(batch.After)
	p.next.Store(&Batch[C]{err: store.ErrCompacted})
}

// empty reports whether the log holds no batch.
func (l *Log[C]) empty() bool { return l.oldest.Load() == l.newest.Load() }

// Trim drops the batches up to revision rev.
func (l *Log[C]) Trim(rev store.Revision) {
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	for !l.empty() && l.oldest.Load().next.Load().Revision <= rev {
		l.dropOldest()
	}
}

// Close ends the log with an error for readers that have read to its end. Further batches are ignored.
func (l *Log[C]) Close(err error) {
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	l.close(err)
}

func (l *Log[C]) close(err error) {
	p := l.newest.Load()
	if p.next.Load() == nil {
		p.next.Store(&Batch[C]{err: err})
		close(p.ready)
	}
}

// Drop ends the log for all readers, wherever they are, with store.ErrCompacted, and releases its memory.
func (l *Log[C]) Drop() {
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	for !l.empty() {
		l.dropOldest()
	}
	l.close(store.ErrCompacted)
}

// Since returns the place to read on from when everything up to revision rev has been read: the batches behind it may begin
// with changes up to rev. ok is false when changes after rev were dropped.
func (l *Log[C]) Since(rev store.Revision) (p *Place[C], ok bool) {
	if end := l.newest.Load(); rev >= end.Revision {
		return end, true
	}
	p = l.oldest.Load()
	if rev < p.Revision {
		return nil, false
	}
	for {
		b, err := p.Next()
		switch {
		case err != nil:
			return nil, false // dropped meanwhile
		case b == nil, b.Revision > rev:
			return p, true
		}
		p = b.After
	}
}

// End returns the place behind the newest batch.
func (l *Log[C]) End() *Place[C] { return l.newest.Load() }
