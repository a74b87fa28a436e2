package cache

import (
	"sync/atomic"

	"github.com/minikctl/minikctl/pkg/store"
)

// event is one change of a table. now is nil when the object was deleted, before when it was created; gone is the last
// object under the revision of its deletion.
type event struct {
	revision          store.Revision
	now, before, gone *Item
}

// segment is a batch of events in the linked list of a table's changes. A watch holds the segment that it has read; the
// next one, and with it all waiters' wake-up, comes with ready. Segments are immutable but for that.
//
// When the list is too long its first segment is cut off: next becomes nil, so that a reader that stands still pins no
// more than its own segment, and finds out when it goes on.
type segment struct {
	events   []event
	revision store.Revision // of the last event; of the list's sentinel: nothing up to here is in the list
	size     int
	next     atomic.Pointer[segment]
	ready    chan struct{} // closed when next was set
}

func newSegment(rev store.Revision, events []event) *segment {
	s := &segment{events: events, revision: rev, ready: make(chan struct{})}
	for i := range events {
		s.size += eventSize
		if events[i].now != nil {
			s.size += events[i].now.size
		}
	}
	return s
}

// eventSize is what an event weighs besides its object.
const eventSize = 256

// log is the list. first has been given up: its events count no more, but those behind it do.
type log struct {
	first, last *segment
	size        int // of all behind first
	limit       int
}

func newLog(rev store.Revision, limit int) log {
	s := newSegment(rev, nil)
	return log{first: s, last: s, limit: limit}
}

func (l *log) append(events []event) {
	s := newSegment(events[len(events)-1].revision, events)
	l.size += s.size
	last := l.last
	l.last = s
	last.next.Store(s)
	close(last.ready)
	for l.size > l.limit && l.first.next.Load() != l.last {
		l.cut()
	}
}

// trim cuts off what is not newer than rev.
func (l *log) trim(rev store.Revision) {
	for {
		next := l.first.next.Load()
		if next == nil || next == l.last || next.revision > rev {
			return
		}
		l.cut()
	}
}

// cut gives up the oldest segment behind first.
func (l *log) cut() {
	first := l.first
	l.first = first.next.Load()
	l.size -= l.first.size
	first.next.Store(nil)
}

// finish says that nothing follows: readers go on to the last segment, and find nothing behind it.
func (l *log) finish() { close(l.last.ready) }

// end cuts off all readers: those who wait wake up and find nothing.
func (l *log) end() {
	for s := l.first; s != nil; {
		next := s.next.Load()
		s.next.Store(nil)
		if next == nil {
			close(s.ready)
		}
		s = next
	}
}

// find returns the segment from which to read on when everything up to rev has been seen; nil when the list starts
// later.
func (l *log) find(rev store.Revision) *segment {
	if rev < l.first.revision {
		return nil
	}
	if rev >= l.last.revision {
		return l.last
	}
	s := l.first
	for {
		next := s.next.Load()
		if next == nil || next.revision > rev {
			return s
		}
		s = next
	}
}
