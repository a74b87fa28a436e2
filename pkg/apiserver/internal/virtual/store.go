// Package virtual owns the resources of the group minikctl.dev: traces and decisions. They are not in the store: the
// newest are kept in a change log of bounded size, and their resourceVersion is a sequence number of this package. A
// watch from before the oldest of them ends with 410. A background loop appends them to files, from which the next start
// restores them.
//
// A Store is a verbs.Backend.
package virtual

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

// DefaultBytes bounds the memory of the entries.
const DefaultBytes = 16 << 20

const (
	restoredBytes = 2 << 20                // of entries that are read at the start, which takes time
	maxWaiting    = 64 << 10               // spans that are not in the log yet
	saveEvery     = 250 * time.Millisecond // the time that new entries wait to be saved; a kill loses that much
	saveBytes     = 1 << 20                // of new entries that are saved at once
)

// Config is what a Store needs.
type Config struct {
	Dir    string // of the files; "": nothing is saved
	Bytes  int    // the bound of the entries in memory; 0: DefaultBytes
	Clock  clock.Clock
	Source *clock.Source
}

// Store keeps the virtual resources.
type Store struct {
	config Config
	rows   map[string]*objects.Resource // by plural
	recent *recent
	files  *segments // nil: nothing is saved

	mu      sync.Mutex
	waiting []trace.Span
	dropped int // spans that found too many waiting
	unsaved []*entry
	bytes   int // of the JSON of unsaved
	wake    chan struct{}
	adding  sync.Mutex // held while entries are added and marked to be saved, so that both have the same order
}

// New makes the store and restores the newest entries from the files in cfg.Dir.
func New(cfg Config) (*Store, error) {
	if cfg.Bytes == 0 {
		cfg.Bytes = DefaultBytes
	}
	s := &Store{config: cfg, rows: map[string]*objects.Resource{}, recent: newRecent(cfg.Bytes), wake: make(chan struct{}, 1)}
	rows := Rows()
	for i := range rows {
		s.rows[rows[i].Names.Plural] = &rows[i]
	}
	if cfg.Dir == "" {
		return s, nil
	}
	var err error
	if s.files, err = openSegments(cfg.Dir, min(cfg.Bytes, restoredBytes), s.restore); err != nil {
		return nil, err
	}
	return s, nil
}

// Run adds the spans that wait and saves new entries, until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	defer s.Close()
	var due <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			s.drain()
			s.save(context.WithoutCancel(ctx))
			return nil
		case <-s.wake:
			s.drain()
			switch {
			case s.unsavedBytes() >= saveBytes:
				s.save(ctx)
			case due == nil:
				due = clock.Machine(s.config.Clock).After(saveEvery)
			}
		case <-due:
			due = nil
			s.save(ctx)
		}
	}
}

// Close releases the files of a store that is not run.
func (s *Store) Close() {
	if s.files != nil {
		s.files.close()
	}
}

// Release moves what is kept together in the heap, so that pages of it can be returned to the system.
func (s *Store) Release() {
	s.adding.Lock()
	defer s.adding.Unlock()
	s.recent.compact()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.unsaved {
		if moved, ok := s.recent.find(e.row, e.key); ok {
			s.unsaved[i] = moved
		}
	}
}

// Span records a committed write. The write waits for the call, so Span only enqueues the span.
func (s *Store) Span(span trace.Span) {
	s.mu.Lock()
	if len(s.waiting) < maxWaiting {
		s.waiting = append(s.waiting, span)
	} else {
		s.dropped++
	}
	s.mu.Unlock()
	s.notify()
}

func (s *Store) notify() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drain adds the spans that wait. Every read begins with it, so that it shows all writes that were committed before.
func (s *Store) drain() {
	s.adding.Lock()
	defer s.adding.Unlock()
	s.mu.Lock()
	spans := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	row := s.rows[minikctl.Traces.Resource]
	for some := range slices.Chunk(spans, blockEntries) {
		traces := make([]objects.Object, len(some))
		for i := range some {
			traces[i] = newTrace(&some[i])
		}
		added, err := s.recent.add(row, traces...)
		if err != nil {
			slog.Error("encode traces", "err", err) // only a time beyond the year 9999
		}
		for _, e := range added {
			if e != nil {
				s.markUnsaved(e)
			}
		}
	}
}

// markUnsaved adds an entry to those that the next save writes.
func (s *Store) markUnsaved(e *entry) {
	if s.files == nil {
		return
	}
	s.mu.Lock()
	s.unsaved = append(s.unsaved, e)
	s.bytes += e.length
	s.mu.Unlock()
}

func (s *Store) unsavedBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// save appends the new entries to the files, and compresses them in memory. Entries that can't be written are lost at the next
// restart.
func (s *Store) save(ctx context.Context) {
	s.mu.Lock()
	unsaved, dropped := s.unsaved, s.dropped
	s.unsaved, s.bytes, s.dropped = nil, 0, 0
	s.mu.Unlock()
	if dropped > 0 {
		slog.WarnContext(ctx, "traces dropped", "count", dropped)
	}
	if s.files == nil || len(unsaved) == 0 {
		return
	}
	lines := make([][]byte, len(unsaved))
	for i, e := range unsaved {
		lines[i] = e.text.Load().plain
	}
	block, err := s.files.append(lines)
	if err != nil {
		slog.WarnContext(ctx, "save traces", "err", err)
		return
	}
	pack(unsaved, block)
}

// newTrace returns the object of a span. The traces of cluster-scoped objects are in the namespace default, as their Events are.
func newTrace(span *trace.Span) *minikctl.Trace {
	t := &minikctl.Trace{Span: *span}
	t.Name = strconv.FormatUint(span.Revision, 10)
	t.Namespace = span.Namespace
	if t.Namespace == "" {
		t.Namespace = metav1.NamespaceDefault
	}
	t.CreationTimestamp = metav1.NewTime(span.Time)
	t.UID = types.UID("trace-" + t.Name)
	return t
}
