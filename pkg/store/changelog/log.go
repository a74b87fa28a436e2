// Package changelog owns the lists of recent changes from which watches read: those of a store (Watch), of the tables
// of the API server's cache, and of virtual resources.
//
// A Log is a linked list of batches in revision order. A watch holds a Place, the position between two batches. A Place pins
// no changes, so a slow reader takes no memory. Logs share a Budget of bytes; when it is
// exceeded the oldest batch of all of them is dropped, and a reader whose next batch was dropped gets store.ErrCompacted.
//
// Reading takes no lock. Everything that changes a log takes the lock of its Budget.
package changelog

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/minikctl/minikctl/pkg/store"
)

// Budget bounds the bytes that a group of logs holds together. It is safe for concurrent use.
type Budget struct {
	mu    sync.Mutex
	limit int
	used  int
	queue []dropper // the log of each batch, in the order of Append; the log of a dropped batch stays queued
}

// dropper is a Log of any type.
type dropper interface {
	dropOldest()                    // drops the oldest batch, if any
	oldestRevision() store.Revision // 0 without a batch
}

// dropFront drops the oldest batch of all logs.
func (b *Budget) dropFront() {
	l := b.queue[0]
	b.queue[0] = nil
	b.queue = b.queue[1:]
	l.dropOldest()
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int) *Budget { return &Budget{limit: limit} }

// Used returns the bytes that the logs hold.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Trim drops the batches up to revision rev. It is for logs that take their revisions from one sequence.
func (b *Budget) Trim(rev store.Revision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queue) > 0 && b.queue[0].oldestRevision() <= rev {
		b.dropFront()
	}
}

// Accounting has the functions by which a log accounts for its changes in the budget. Both functions run under the
// budget's lock.
type Accounting[C any] struct {
	Size    func(*C) int // the bytes that a change keeps in memory, constant; nil: only the change itself
	Dropped func(*C)     // is called for each change that the log drops; nil: nothing is called
}

// Log is a list of batches of changes. New creates one. It is safe for concurrent use, except that batches must be
// appended in the order of their revisions.
type Log[C any] struct {
	budget *Budget
	costs  Accounting[C]
	oldest atomic.Pointer[Place[C]] // before the oldest batch
	newest atomic.Pointer[Place[C]] // behind the newest batch
}

// Batch is a group of changes that were committed together. It is immutable.
type Batch[C any] struct {
	Changes  []C
	Revision store.Revision // the last revision that the batch covers
	After    *Place[C]      // the place behind the batch

	err error // not nil: the log has ended, and this is no batch
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

// Next returns the batch behind the place, or nil if there is none yet. It fails with store.ErrCompacted when the batch
// was dropped, and with Close's error at the end of a closed log.
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
func New[C any](b *Budget, costs Accounting[C], after store.Revision) *Log[C] {
	l := &Log[C]{budget: b, costs: costs}
	p := newPlace[C](after)
	l.oldest.Store(p)
	l.newest.Store(p)
	return l
}

// overhead is the memory of a batch besides its changes: the batch, the place behind it with its channel, its part of the queue.
const overhead = 256

// size returns the bytes of a batch.
func (l *Log[C]) size(b *Batch[C]) int {
	var c C
	n := overhead + cap(b.Changes)*int(unsafe.Sizeof(c))
	if l.costs.Size != nil {
		for i := range b.Changes {
			n += l.costs.Size(&b.Changes[i])
		}
	}
	return n
}

// Append adds a batch whose last change has revision rev, and wakes the waiting readers. The log owns changes
// afterwards. If the budget is exceeded, the oldest batches of its logs are dropped, but not the new one.
func (l *Log[C]) Append(rev store.Revision, changes []C) {
	batch := &Batch[C]{Changes: changes, Revision: rev, After: newPlace[C](rev)}
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	before := l.newest.Load()
	if before.next.Load() != nil {
		return // the log is closed
	}
	b.queue = append(b.queue, l)
	b.used += l.size(batch)
	l.newest.Store(batch.After)
	before.next.Store(batch)
	close(before.ready)
	for b.used > b.limit && len(b.queue) > 1 {
		b.dropFront()
	}
}

// empty reports whether the log holds no batch. The budget's lock is held.
func (l *Log[C]) empty() bool { return l.oldest.Load() == l.newest.Load() }

// dropOldest drops the log's oldest batch. The budget's lock is held.
func (l *Log[C]) dropOldest() {
	if l.empty() {
		return
	}
	p := l.oldest.Load()
	batch := p.next.Load()
	l.budget.used -= l.size(batch)
	if l.costs.Dropped != nil {
		for i := range batch.Changes {
			l.costs.Dropped(&batch.Changes[i])
		}
	}
	l.oldest.Store(batch.After)
	p.next.Store(&Batch[C]{err: store.ErrCompacted})
}

// oldestRevision returns the revision of the log's oldest batch. The budget's lock is held.
func (l *Log[C]) oldestRevision() store.Revision {
	if l.empty() {
		return 0
	}
	return l.oldest.Load().next.Load().Revision
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

// Drop ends the log for all readers, at any place, with store.ErrCompacted, and releases its memory.
func (l *Log[C]) Drop() {
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	for !l.empty() {
		l.dropOldest()
	}
	l.close(store.ErrCompacted)
}

// Compact copies the batches into memory of their own. Those of a busy process are spread over its heap, of which they keep most pages
// when it is idle again. move replaces each change by a copy. Readers go on where they are. Nothing may be appended meanwhile.
func (l *Log[C]) Compact(move func(C) C) {
	l.budget.mu.Lock()
	defer l.budget.mu.Unlock()
	end := l.newest.Load()
	batches, changes := 0, 0
	for p := l.oldest.Load(); p != end; p = p.next.Load().After {
		batches++
		changes += len(p.next.Load().Changes)
	}
	if batches == 0 {
		return
	}
	set := make(chan struct{}) // all places but the last are ready
	close(set)
	newBatches, newPlaces, newChanges := make([]Batch[C], batches), make([]Place[C], batches), make([]C, 0, changes)
	at := &newPlaces[0] // the place before the next batch
	old := l.oldest.Load()
	at.Revision, at.ready = old.Revision, set
	l.oldest.Store(at)
	for i := range newBatches {
		was := old.next.Load()
		l.budget.used -= l.size(was)
		b, from := &newBatches[i], len(newChanges)
		for _, c := range was.Changes {
			newChanges = append(newChanges, move(c))
		}
		b.Changes, b.Revision, b.After = newChanges[from:len(newChanges):len(newChanges)], was.Revision, end
		if i < batches-1 {
			b.After = &newPlaces[i+1]
			b.After.Revision, b.After.ready = was.After.Revision, set
		}
		l.budget.used += l.size(b)
		at.next.Store(b)
		old.next.Store(b) // for its readers
		at, old = b.After, was.After
	}
}

// Trim drops the batches up to revision rev, of all logs that share the budget. Their readers get store.ErrCompacted.
func (l *Log[C]) Trim(rev store.Revision) { l.budget.Trim(rev) }

// Since returns the place after revision rev. The first batch behind it may begin with changes up to rev. ok is false
// when changes after rev were dropped.
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

// Start returns the place before the oldest batch.
func (l *Log[C]) Start() *Place[C] { return l.oldest.Load() }

// End returns the place behind the newest batch.
func (l *Log[C]) End() *Place[C] { return l.newest.Load() }
