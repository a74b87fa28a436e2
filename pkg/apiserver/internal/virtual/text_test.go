package virtual

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/clock"
)

// TestSavedEntriesAreCompressed reads entries before and after they are saved, and expects the same JSON.
func TestSavedEntriesAreCompressed(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir()})
	defer s.Close()
	for i := range 3 * blockEntries {
		s.Span(span(uint64(i + 1)))
	}
	texts := func() (out [][]byte) {
		l, err := s.List(t.Context(), request(s, "traces", "", ""), &metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range l.Items {
			b, err := it.Encoded(cache.JSON, nil)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, b)
		}
		return out
	}
	before := texts()
	s.save(t.Context())
	entries, _ := s.recent.after(0)
	block := entries[0].text.Load().block
	if block == nil {
		t.Fatal("a saved entry is not compressed")
	}
	if size := len(before) * len(before[0]); len(block.bytes) > size/4 {
		t.Errorf("%d bytes of JSON take %d bytes", size, len(block.bytes))
	}
	after := texts()
	for i := range before {
		if !bytes.Equal(before[i], after[i]) {
			t.Fatalf("entry %d was %s, is %s", i, before[i], after[i])
		}
	}
	if e := entries[len(entries)-1]; e.text.Load().block != block {
		t.Error("the entries of one save do not share a block")
	}
}

// TestCompact moves entries, compressed and not, and saves those that were not before.
func TestCompact(t *testing.T) {
	cfg := Config{Dir: t.TempDir(), Clock: clock.Real(), Source: clock.NewSource(1)}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		s.Span(span(uint64(i + 1)))
	}
	s.drain()
	s.save(t.Context())
	for i := range 10 {
		s.Span(span(uint64(301 + i)))
	}
	s.drain()
	texts := func() (out []string) {
		entries, _ := s.recent.after(0)
		for _, e := range entries {
			b, err := e.text.Load().json(e.length)
			found, ok := s.recent.find(e.row, e.key)
			if err != nil || !ok || found != e {
				t.Fatalf("entry %d: %v, found %v", e.seq, err, ok)
			}
			out = append(out, fmt.Sprint(e.seq, e.key, string(b)))
		}
		return out
	}
	before, size := texts(), s.recent.budget.Used()
	s.Release()
	if after := texts(); len(after) != 310 || !slices.Equal(before, after) {
		t.Errorf("%d entries, or others than before", len(after))
	}
	if got := s.recent.budget.Used(); got > size {
		t.Errorf("the entries had %d bytes, now %d", size, got)
	}
	s.save(t.Context())
	for _, e := range func() []*entry { all, _ := s.recent.after(0); return all }() {
		if e.text.Load().block == nil {
			t.Fatalf("entry %d is not compressed", e.seq)
		}
	}
	s.Close()
	if s, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if after := texts(); !slices.Equal(before, after) {
		t.Errorf("%d entries after a restart, or others than before", len(after))
	}
}
