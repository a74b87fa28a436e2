package httpapi

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	utilclock "k8s.io/utils/clock"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/codec"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
)

const (
	// largeObject is the lowest stored size of an object that is written directly from the bytes that all watches share.
	// Smaller ones are collected in a buffer.
	largeObject = 16 << 10
	// pieceBytes is the size of one write. A client that reads one piece makes progress.
	pieceBytes = 64 << 10
	// stallTime is how long a watch waits for a client that reads nothing. It is checked every stallCheck.
	stallTime  = 30 * time.Second
	stallCheck = 10 * time.Second
)

// frameBuffers holds the buffers of watches that are being written to. An idle watch has none. A buffer grows to twice
// largeObject.
var frameBuffers = sync.Pool{New: func() any { return new([]byte) }}

// frames writes the events of one watch. It holds one buffer and one large object at a time, and ends the response when
// the client reads nothing for stallTime.
type frames struct {
	*eventEncoder
	w     http.ResponseWriter
	held  *writtenObjects
	user  string
	buf   []byte
	stall *stall
}

func (s *Handler) newFrames(a *openResponse, enc *eventEncoder, user string) *frames {
	cut := func() { a.stop((*http.ResponseController).SetWriteDeadline) }
	return &frames{eventEncoder: enc, w: a.w, held: s.held, user: user, stall: &stall{clock: s.machine, cut: cut}}
}

func (f *frames) close() { f.stall.close() }

// write writes events. If an object can't be encoded, it writes and returns the error.
func (f *frames) write(ctx context.Context, events []verbs.Event) error {
	return f.flushed(func() error {
		for i := range events {
			if err := f.event(ctx, &events[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// fail writes the event that ends a watch with an error.
func (f *frames) fail(err error) error {
	return f.flushed(func() error { return f.failure(err) })
}

// flushed calls write, with a buffer, and flushes what it has written.
func (f *frames) flushed(write func() error) error {
	buf := frameBuffers.Get().(*[]byte)
	f.buf = (*buf)[:0]
	f.stall.begin()
	err := write()
	if rest := f.writeBuffer(); err == nil {
		err = rest
	}
	if ferr := http.NewResponseController(f.w).Flush(); err == nil {
		err = ferr
	}
	f.stall.end()
	if cap(f.buf) <= 4*largeObject {
		*buf = f.buf
		frameBuffers.Put(buf)
	}
	f.buf = nil
	return err
}

func (f *frames) event(ctx context.Context, ev *verbs.Event) error {
	it := ev.Item
	if it == nil {
		it = f.bookmark(*ev)
	}
	if it.Size() >= largeObject {
		key := heldKey{item: it, format: f.media.Format, partial: f.media.Partial()}
		if !f.shares() {
			key.watch = f
		}
		if err := f.held.take(ctx, f.user, key, it.Size()); err != nil {
			return err
		}
		defer f.held.release(f.user, key)
	}
	b, err := f.object(it)
	if err != nil {
		return f.failure(err)
	}
	return f.frame(ev.Type, b)
}

// failure writes the frame of an error, and returns the error.
func (f *frames) failure(err error) error {
	b, merr := codec.Marshal(statusOf(err), statusKind, f.media.Format)
	if merr != nil {
		return merr // cannot happen: a Status can always be encoded
	}
	if werr := f.frame(watch.Error, b); werr != nil {
		return werr
	}
	return err
}

// frame writes the frame of an event: a small one into the buffer, a large object directly from its encoding.
func (f *frames) frame(t watch.EventType, object []byte) error {
	f.buf = codec.AppendEventHead(f.buf, t, len(object), f.media.Format)
	if len(object) < largeObject {
		f.buf = append(append(f.buf, object...), codec.EventTail(f.media.Format)...)
		if len(f.buf) < largeObject {
			return nil
		}
		return f.writeBuffer()
	}
	if err := f.writeBuffer(); err != nil {
		return err
	}
	for piece := range slices.Chunk(object, pieceBytes) {
		if err := f.writePiece(piece); err != nil {
			return err
		}
	}
	f.buf = append(f.buf, codec.EventTail(f.media.Format)...)
	return nil
}

func (f *frames) writeBuffer() error {
	if len(f.buf) == 0 {
		return nil
	}
	err := f.writePiece(f.buf)
	f.buf = f.buf[:0]
	return err
}

func (f *frames) writePiece(b []byte) error {
	_, err := f.w.Write(b)
	f.stall.progress()
	return err
}

// stall calls cut when a write makes no progress for stallTime. It is safe for concurrent use.
type stall struct {
	clock utilclock.WithDelayedExecution
	cut   func()

	mu     sync.Mutex
	timer  utilclock.Timer // of the next check; nil: there is none
	active bool            // a write has begun
	checks int             // since the last progress
}

// begin begins a write.
func (s *stall) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = true
	if s.timer == nil {
		s.checks = 0
		s.arm()
		return
	}
	s.checks = -1 // the first check may come after less than stallCheck, so it does not count
}

// arm sets the timer of the next check. s.mu is held.
func (s *stall) arm() {
	// A fake clock calls the function under the lock that a new timer takes.
	s.timer = s.clock.AfterFunc(stallCheck, func() { go s.check() })
}

func (s *stall) progress() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks = -1
}

// end ends a write. The timer keeps running, so that the writes of a busy watch share one timer.
func (s *stall) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = false
}

// close stops the checks.
func (s *stall) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = false
	if s.timer != nil {
		s.timer.Stop()
	}
}

func (s *stall) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer = nil
	if !s.active {
		return
	}
	if s.checks++; time.Duration(s.checks)*stallCheck >= stallTime {
		s.cut()
		return
	}
	s.arm()
}
