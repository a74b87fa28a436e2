package virtual

import (
	"fmt"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/trace"
)

// TestStartReadsTheNewestOnly fills both files and counts the lines that the next start reads.
func TestStartReadsTheNewestOnly(t *testing.T) {
	const blocks, spans = 40, 500
	cfg := Config{Dir: t.TempDir(), Clock: clock.Real(), Source: clock.NewSource(1)}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for b := range blocks {
		for i := range spans {
			n := uint64(b*spans + i + 1)
			s.Span(trace.Span{Revision: n, Time: time.Unix(int64(n), 0), Verb: "create", Resource: "pods", Namespace: "default", Name: fmt.Sprint("web-", n*7919)})
		}
		s.drain()
		s.save(t.Context())
	}
	s.Close()

	lines, bytes := 0, 0
	again, err := openSegments(cfg.Dir, restoredBytes, func(l []byte) {
		lines++
		bytes += len(l)
	})
	if err != nil {
		t.Fatal(err)
	}
	again.close()
	if block := bytes / lines * spans; bytes < restoredBytes-block || bytes > restoredBytes+block || lines%spans != 0 {
		t.Errorf("read %d lines of %d bytes, want whole blocks of about %d bytes", lines, bytes, restoredBytes)
	}
	if s, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if first := blocks*spans - lines; int(s.recent.log.Start().Revision) != first {
		t.Errorf("the entries begin after %d, want %d", s.recent.log.Start().Revision, first)
	}
	if entries, end := s.recent.after(0); end.Revision != blocks*spans || len(entries) != lines {
		t.Errorf("got %d entries up to %d, want the last %d up to %d", len(entries), end.Revision, lines, blocks*spans)
	}
}
