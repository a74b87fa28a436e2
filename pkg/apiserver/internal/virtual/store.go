// Package virtual owns the resources of the group minikctl.dev: traces and decisions. They have no stored revision: the
// newest are kept in a ring of bytes, with a sequence of its own as resourceVersion, and what has left the ring is Gone.
// So that they survive a restart, they are also appended to files, off the path of the writes that they tell of.
//
// Towards the server, a Store is a verb engine like the one of stored resources.
package virtual

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

// DefaultBytes is how much is kept in memory.
const DefaultBytes = 16 << 20

// restoredBytes bounds what is read back at a start, which somebody waits for.
const restoredBytes = 2 << 20

// maxWaiting bounds the spans that are not yet in the ring.
const maxWaiting = 64 << 10

// Config is what a Store needs.
type Config struct {
	Dir       string // of the files; "": there are none
	Bytes     int    // kept in memory; 0: DefaultBytes
	Clock     clock.Clock
	Source    *clock.Source
	Authorize func(context.Context, *stage.Attributes) error
}

// Store keeps the virtual resources.
type Store struct {
	config Config
	rows   map[string]*objects.Resource // by plural
	ring   *ring
	log    *segments // nil: none

	mu      sync.Mutex
	waiting []trace.Span
	dropped int
	unsaved [][]byte
	wake    chan struct{}
	adding  sync.Mutex // held while entries go into the ring and are marked to be saved: in the same order
}

// New makes the store and reads what earlier ones left in cfg.Dir.
func New(cfg Config) (*Store, error) {
	if cfg.Bytes == 0 {
		cfg.Bytes = DefaultBytes
	}
	s := &Store{config: cfg, rows: map[string]*objects.Resource{}, ring: newRing(cfg.Bytes), wake: make(chan struct{}, 1)}
	rows := Rows()
	for i := range rows {
		s.rows[rows[i].Names.Plural] = &rows[i]
	}
	if cfg.Dir == "" {
		return s, nil
	}
	var err error
	if s.log, err = openSegments(cfg.Dir, min(cfg.Bytes, restoredBytes), s.restore); err != nil {
		return nil, err
	}
	return s, nil
}

// saveEvery is how long what is new may wait to be saved: a kill loses that much.
const saveEvery = 250 * time.Millisecond

// Run takes in what comes and saves it, until ctx ends.
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
			if due == nil {
				due = s.config.Clock.After(saveEvery)
			}
		case <-due:
			due = nil
			s.save(ctx)
		}
	}
}

// Close releases the files of a store that is not run.
func (s *Store) Close() {
	if s.log != nil {
		s.log.close()
	}
}

// Span notes a committed write. It is called on the path of writes and does no more than remember.
func (s *Store) Span(span trace.Span) {
	s.mu.Lock()
	if len(s.waiting) < maxWaiting {
		s.waiting = append(s.waiting, span)
	} else {
		s.dropped++
	}
	s.mu.Unlock()
	s.nudge()
}

func (s *Store) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drain puts the waiting spans into the ring, so that whoever reads sees all writes that were committed before.
func (s *Store) drain() {
	s.adding.Lock()
	defer s.adding.Unlock()
	s.mu.Lock()
	spans := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	row := s.rows[minikctl.Traces.Resource]
	for i := range spans {
		e, added, err := s.ring.add(row, newTrace(&spans[i]))
		if err != nil {
			slog.Error("encode trace", "revision", spans[i].Revision, "err", err) // only a time beyond the year 9999
			continue
		}
		if added {
			s.keep(e)
		}
	}
}

// keep has an entry saved by Run.
func (s *Store) keep(e *entry) {
	if s.log == nil {
		return
	}
	s.mu.Lock()
	s.unsaved = append(s.unsaved, e.json)
	s.mu.Unlock()
}

// save writes what is new to the files. When that fails, what could not be written lives in memory only.
func (s *Store) save(ctx context.Context) {
	s.mu.Lock()
	unsaved, dropped := s.unsaved, s.dropped
	s.unsaved, s.dropped = nil, 0
	s.mu.Unlock()
	if dropped > 0 {
		slog.WarnContext(ctx, "writes came faster than they could be traced", "dropped", dropped)
	}
	if s.log == nil || len(unsaved) == 0 {
		return
	}
	if err := s.log.append(unsaved); err != nil {
		slog.WarnContext(ctx, "traces are not kept over a restart", "err", err)
	}
}

// newTrace makes the object of a span. Those of cluster-scoped objects live in the namespace default, as their Events do.
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
