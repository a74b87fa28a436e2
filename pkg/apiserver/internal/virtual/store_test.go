package virtual

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
	"github.com/minikctl/minikctl/pkg/trace"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	cfg.Clock, cfg.Source = testclock.NewFakeClock(start), clock.NewSource(1)
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runUntil runs s while f runs.
func runUntil(t *testing.T, s *Store, f func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	f()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func request(s *Store, plural, namespace, name string) *verbs.Request {
	return &verbs.Request{Attributes: stage.Attributes{Resource: s.rows[plural], Namespace: namespace, Name: name}}
}

func newWriter() *flate.Writer {
	z, err := flate.NewWriter(io.Discard, flate.BestSpeed)
	if err != nil {
		panic(err)
	}
	return z
}

func span(rev uint64) trace.Span {
	return trace.Span{Revision: rev, Time: start, Actor: "alice", Verb: "create", Resource: "pods", Namespace: "a", Name: fmt.Sprintf("p%d", rev)}
}

func decision(name, pod string) *minikctl.Decision {
	return &minikctl.Decision{ObjectMeta: metav1.ObjectMeta{Name: name}, Pod: pod, Outcome: "Scheduled"}
}

// listed returns the names in a list.
func listed(t *testing.T, s *Store, plural, namespace string, opts metav1.ListOptions) []string {
	t.Helper()
	l, err := s.List(t.Context(), request(s, plural, namespace, ""), &opts)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, it := range l.Items {
		out = append(out, it.Key.Name)
	}
	return out
}

func TestReadAfterWrite(t *testing.T) {
	s := open(t, Config{})
	s.Span(span(7))
	s.Span(trace.Span{Revision: 8, Resource: "nodes", Name: "n"})
	if got := listed(t, s, "traces", "", metav1.ListOptions{}); fmt.Sprint(got) != "[7 8]" {
		t.Errorf("got %v", got)
	}
	if got := listed(t, s, "traces", "default", metav1.ListOptions{}); fmt.Sprint(got) != "[8]" {
		t.Errorf("the trace of a cluster-scoped object is not in the namespace default: %v", got)
	}
	it, err := s.Get(t.Context(), request(s, "traces", "a", "7"), &metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	obj, err := it.Object()
	if err != nil {
		t.Fatal(err)
	}
	if tr := obj.(*minikctl.Trace); tr.Span.Name != "p7" || tr.ResourceVersion != "1" || tr.Kind != "Trace" {
		t.Errorf("got %+v", tr)
	}
	if _, err := s.Get(t.Context(), request(s, "traces", "b", "7"), &metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("in another namespace: got %v", err)
	}
}

// Traces are added in batches. A page and a watch that begin within one have no entry that came before.
func TestPlaceWithinABatch(t *testing.T) {
	s := open(t, Config{})
	for rev := range uint64(5) {
		s.Span(span(rev + 1))
	}
	req := request(s, "traces", "a", "")
	var pages []string
	for opts := (metav1.ListOptions{Limit: 2}); len(pages) < 5; { // no more than there are traces
		l, err := s.List(t.Context(), req, &opts)
		if err != nil {
			t.Fatal(err)
		}
		names := ""
		for _, item := range l.Items {
			names += item.Key.Name
		}
		pages = append(pages, names)
		if opts.Continue = l.Continue; l.Continue == "" {
			break
		}
	}
	if fmt.Sprint(pages) != "[12 34 5]" {
		t.Errorf("pages: got %v", pages)
	}
	events, err := s.Watch(t.Context(), req, &metav1.ListOptions{ResourceVersion: "3"})
	if err != nil {
		t.Fatal(err)
	}
	for batch, err := range events {
		if err != nil || len(batch) != 2 || batch[0].Item.Key.Name != "4" {
			t.Errorf("watch: got %v, %v", batch, err)
		}
		break
	}
}

func TestDecisions(t *testing.T) {
	s := open(t, Config{})
	req := request(s, "decisions", "a", "")
	for _, d := range []*minikctl.Decision{decision("x.1-q", "x"), decision("y.1-q", "y")} {
		if _, err := s.Create(t.Context(), req, d, &metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	batch := &minikctl.DecisionList{Items: []minikctl.Decision{*decision("x.2-q", "x"), *decision("x.3-q", "x")}}
	if _, err := s.Create(t.Context(), req, batch, &metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	again := &minikctl.DecisionList{Items: []minikctl.Decision{*decision("x.4-q", "x"), *decision("x.1-q", "x"), *decision("x.5-q", "x"), *decision("x.5-q", "x")}}
	if _, err := s.Create(t.Context(), req, again, &metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	if _, err := s.Create(t.Context(), req, again, &metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) || !strings.Contains(err.Error(), "x.1-q") {
		t.Errorf("a list with a name that exists: %v", err)
	}
	if got := listed(t, s, "decisions", "a", metav1.ListOptions{LabelSelector: minikctl.PodLabel + "=x"}); fmt.Sprint(got) != "[x.1-q x.2-q x.3-q x.4-q x.5-q]" {
		t.Errorf("by pod: got %v", got)
	}
	if got := listed(t, s, "decisions", "", metav1.ListOptions{FieldSelector: "metadata.name=y.1-q"}); fmt.Sprint(got) != "[y.1-q]" {
		t.Errorf("by name: got %v", got)
	}
	for name, c := range map[string]struct {
		d    *minikctl.Decision
		want func(error) bool
	}{
		"twice":             {decision("x.1-q", "x"), apierrors.IsAlreadyExists},
		"without a name":    {decision("", "x"), apierrors.IsBadRequest},
		"another namespace": {&minikctl.Decision{ObjectMeta: metav1.ObjectMeta{Name: "z", Namespace: "b"}}, apierrors.IsBadRequest},
	} {
		if _, err := s.Create(t.Context(), req, c.d, &metav1.CreateOptions{}); !c.want(err) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	var pages []string
	for opts := (metav1.ListOptions{Limit: 2, LabelSelector: minikctl.PodLabel + "=x"}); ; {
		l, err := s.List(t.Context(), req, &opts)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, fmt.Sprint(len(l.Items)))
		if opts.Continue = l.Continue; l.Continue == "" {
			break
		}
	}
	if fmt.Sprint(pages) != "[2 2 1]" {
		t.Errorf("pages of two: got %v", pages)
	}
	if _, err := s.List(t.Context(), req, &metav1.ListOptions{Continue: "x"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a bad continue token: got %v", err)
	}
	if _, err := s.List(t.Context(), req, &metav1.ListOptions{FieldSelector: "spec.x=y"}); !apierrors.IsBadRequest(err) {
		t.Errorf("unknown field: got %v", err)
	}
}

func TestWatchOfDroppedEntries(t *testing.T) {
	s := open(t, Config{Bytes: 4 << 10})
	for rev := range uint64(3) {
		s.Span(span(rev + 1))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req := request(s, "traces", "", "")
	events, err := s.Watch(ctx, req, &metav1.ListOptions{ResourceVersion: "2"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for batch, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range batch {
			got = append(got, ev.Item.Key.Name)
		}
		if len(got) == 1 {
			s.Span(span(4))
			s.drain()
			continue
		}
		break
	}
	if fmt.Sprint(got) != "[3 4]" {
		t.Errorf("got %v", got)
	}
	slow, err := s.Watch(ctx, req, &metav1.ListOptions{ResourceVersion: "2"})
	if err != nil {
		t.Fatal(err)
	}
	for rev := range uint64(50) {
		s.Span(span(rev + 10))
	}
	s.drain()
	for _, err := range slow {
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch that is behind: got %v", err)
		}
	}
	for _, rv := range []string{"2", "1000"} {
		if _, err := s.Watch(ctx, req, &metav1.ListOptions{ResourceVersion: rv}); !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch from %s: got %v", rv, err)
		}
	}
	if used := s.recent.budget.Used(); used > 4<<10 || len(s.recent.index) != len(listed(t, s, "traces", "", metav1.ListOptions{})) {
		t.Errorf("the log holds %d bytes, the index %d entries", used, len(s.recent.index))
	}
	if names := listed(t, s, "traces", "", metav1.ListOptions{}); len(names) == 0 || names[len(names)-1] != "59" {
		t.Errorf("the newest is not there: %v", names)
	}
}

func TestTracesSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	runUntil(t, s, func() {
		for rev := range uint64(5) {
			s.Span(span(rev + 1))
		}
		if _, err := s.Create(t.Context(), request(s, "decisions", "a", ""), decision("x.1-q", "x"), &metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	path := filepath.Join(dir, currentFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// After a kill at any point of writing the last block, the earlier blocks can be read, and new blocks after it.
	torn, err := block(newWriter(), [][]byte{[]byte(`{"kind":"Trace","metadata":{"name":"torn","resourceVersion":"99"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	for cut := range torn {
		if err := os.WriteFile(path, append(bytes.Clone(whole), torn[:cut]...), 0o600); err != nil {
			t.Fatal(err)
		}
		s = open(t, Config{Dir: dir})
		runUntil(t, s, func() { s.Span(span(100)) })
		s = open(t, Config{Dir: dir})
		if got := listed(t, s, "traces", "", metav1.ListOptions{}); fmt.Sprint(got) != "[1 2 3 4 5 100]" {
			t.Fatalf("cut after %d bytes: got %v", cut, got)
		}
		if got := listed(t, s, "decisions", "a", metav1.ListOptions{LabelSelector: minikctl.PodLabel + "=x"}); fmt.Sprint(got) != "[x.1-q]" {
			t.Fatalf("cut after %d bytes: got decisions %v", cut, got)
		}
		s.Close()
	}
}

// TestSaveWhenBufferIsFull writes more than the buffer for unsaved entries, while the clock does not advance.
func TestSaveWhenBufferIsFull(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	runUntil(t, s, func() {
		for rev := uint64(1); ; rev++ {
			s.Span(span(rev))
			info, err := os.Stat(filepath.Join(dir, currentFile))
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > 0 {
				return
			}
			if rev > 1_000_000 || t.Context().Err() != nil {
				t.Fatalf("%d traces wait to be saved", rev)
			}
		}
	})
}

func TestSavedInOrder(t *testing.T) {
	const many = 2000
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	runUntil(t, s, func() {
		var spans sync.WaitGroup
		spans.Go(func() {
			for rev := range uint64(many) {
				s.Span(span(rev + 1))
			}
		})
		for i := range many {
			if _, err := s.Create(t.Context(), request(s, "decisions", "a", ""), decision(fmt.Sprintf("x.%d", i), "x"), &metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		spans.Wait()
	})
	s = open(t, Config{Dir: dir})
	defer s.Close()
	if d, n := len(listed(t, s, "decisions", "a", metav1.ListOptions{})), len(listed(t, s, "traces", "", metav1.ListOptions{})); d != many || n != many {
		t.Errorf("%d decisions and %d traces were saved of %d each", d, n, many)
	}
}

func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	var last []byte
	log, err := openSegments(dir, DefaultBytes, func([]byte) {})
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 1<<20)
	noise := rand.NewChaCha8([32]byte{}) // does not compress
	for range 40 {
		_, _ = noise.Read(line) // never fails
		for j := range line {
			line[j] |= 0x80 // no newlines
		}
		if _, err := log.append([][]byte{line}); err != nil {
			t.Fatal(err)
		}
		last = bytes.Clone(line)
	}
	log.close()
	total := int64(0)
	for _, name := range []string{currentFile, previousFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > 2*segmentSize {
		t.Errorf("the files hold %d bytes", total)
	}
	var read []byte
	log, err = openSegments(dir, DefaultBytes, func(l []byte) { read = bytes.Clone(l) })
	if err != nil {
		t.Fatal(err)
	}
	log.close()
	if !bytes.Equal(read, last) {
		t.Error("the last line differs from the last write")
	}
}

func FuzzReadSegment(f *testing.F) {
	b, err := block(newWriter(), [][]byte{[]byte(`{"a":1}`), []byte(`{"b":2}`)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(bytes.Clone(b), b[:9]...))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		blocks, whole, err := readSegment(path)
		newest(blocks, DefaultBytes) // it must return for any blocks
		if err != nil || whole < 0 || whole > int64(len(raw)) {
			t.Errorf("%d bytes of %d are whole: %v", whole, len(raw), err)
		}
	})
}

func TestColumns(t *testing.T) {
	tr := &minikctl.Trace{Span: span(9)}
	tr.Name = "9"
	tr.Span.Causes = []uint64{3, 5}
	tr.Span.Stages = []trace.Stage{{Name: "authn", Start: start, Took: time.Millisecond}, {Name: "commit", Start: start.Add(2 * time.Millisecond), Took: 1500 * time.Microsecond}}
	tr.CreationTimestamp = metav1.NewTime(start)
	var got []any
	for _, c := range Rows()[1].Versions[0].Columns {
		got = append(got, c.Cell(tr, start.Add(time.Minute)))
	}
	b, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if want := `["9","60s","alice","create","pods a/p9","3,5","3.5ms","","alice","authn 1ms, commit 1.5ms"]`; string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
}
