package changelog

import (
	"errors"
	"runtime"
	"testing"
	"weak"

	"github.com/minikctl/minikctl/pkg/store"
)

// payload is a change that pins bytes.
type payload struct{ bytes *[1000]byte }

// thousand is the accounting of payloads.
var thousand = Accounting[payload]{Size: func(*payload) int { return 1000 }}

func newLog(limit int, after store.Revision) *Log[payload] {
	return New(NewBudget(limit), thousand, after)
}

// batchBytes is the size of a batch of one payload.
var batchBytes = newLog(0, 0).size(&Batch[payload]{Changes: make([]payload, 1)})

func appendTo(l *Log[payload], revs ...store.Revision) {
	for _, rev := range revs {
		l.Append(rev, []payload{{new([1000]byte)}})
	}
}

// after returns the revisions after a place, and the error that ends them.
func after(p *Place[payload]) (out []store.Revision, err error) {
	for {
		b, err := p.Next()
		if b == nil {
			return out, err
		}
		out = append(out, b.Revision)
		p = b.After
	}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: got error %v, want %v", what, got, want)
	}
}

func TestSince(t *testing.T) {
	l := newLog(5*batchBytes, 10)
	appendTo(l, 12, 13, 15)
	for rev, want := range map[store.Revision]int{10: 3, 11: 3, 12: 2, 14: 1, 15: 0, 99: 0} {
		p, ok := l.Since(rev)
		if !ok {
			t.Errorf("since %d: changes are missing", rev)
			continue
		}
		if got, err := after(p); len(got) != want || err != nil {
			t.Errorf("since %d: got %v %v, want %d batches", rev, got, err, want)
		}
	}
	if _, ok := l.Since(9); ok {
		t.Error("since 9: the log starts at 10 but has a place")
	}
}

func TestOldestBatchesAreDropped(t *testing.T) {
	l := newLog(5*batchBytes, 10)
	appendTo(l, 12, 13, 15)
	slow, _ := l.Since(10)
	appendTo(l, 20, 21, 22, 23)
	if used := l.budget.Used(); used != 5*batchBytes {
		t.Errorf("got %d bytes in use, want %d", used, 5*batchBytes)
	}
	if _, ok := l.Since(12); ok {
		t.Error("since 12: change 13 was dropped but there is a place")
	}
	p, _ := l.Since(13)
	if got, err := after(p); len(got) != 5 || err != nil {
		t.Errorf("since 13: got %v %v, want 5 batches", got, err)
	}
	select {
	case <-slow.Ready():
	default:
		t.Error("a reader whose next batch was dropped is not woken")
	}
	_, err := slow.Next()
	wantErr(t, "next of a reader that is too slow", err, store.ErrCompacted)
	l.budget.Trim(22)
	if used := l.budget.Used(); used != batchBytes {
		t.Errorf("trimmed: got %d bytes in use, want %d", used, batchBytes)
	}
	l.budget.Trim(99)
	if used := l.budget.Used(); used != 0 {
		t.Errorf("trimmed to nothing: got %d bytes in use", used)
	}
	if p, ok := l.Since(23); !ok || p != l.End() {
		t.Error("a reader at the end loses its place when the log is trimmed")
	}
}

func TestReadAtEndOfLog(t *testing.T) {
	closed, dropped := newLog(5*batchBytes, 10), newLog(5*batchBytes, 10)
	why := errors.New("closed")
	for _, l := range []*Log[payload]{closed, dropped} {
		appendTo(l, 12, 13)
	}
	reader, _ := closed.Since(10)
	waiting := closed.End()
	closed.Close(why)
	got, err := after(reader)
	if len(got) != 2 {
		t.Errorf("a reader of a closed log reads %v, want 2 batches", got)
	}
	wantErr(t, "end of a closed log", err, why)
	select {
	case <-waiting.Ready():
	default:
		t.Error("a reader that waits is not woken when the log is closed")
	}
	appendTo(closed, 14)
	_, err = waiting.Next()
	wantErr(t, "append to a closed log", err, why)

	reader, _ = dropped.Since(10)
	waiting = dropped.End()
	dropped.Drop()
	_, err = reader.Next()
	wantErr(t, "next of a dropped log", err, store.ErrCompacted)
	_, err = waiting.Next()
	wantErr(t, "end of a dropped log", err, store.ErrCompacted)
	if used := dropped.budget.Used(); used != 0 {
		t.Errorf("a dropped log holds %d bytes", used)
	}
}

// TestBudgetIsShared fills one log and expects that the batches of another log are dropped first, because they are older.
func TestBudgetIsShared(t *testing.T) {
	b := NewBudget(4 * batchBytes)
	quiet, busy := New(b, thousand, 0), New(b, thousand, 0)
	appendTo(quiet, 1)
	appendTo(busy, 2, 3)
	appendTo(quiet, 4)
	appendTo(busy, 5, 6)
	if used := b.Used(); used != 4*batchBytes {
		t.Errorf("got %d bytes in use, want %d", used, 4*batchBytes)
	}
	for l, want := range map[*Log[payload]][]store.Revision{quiet: {4}, busy: {3, 5, 6}} {
		if got, _ := after(l.Start()); len(got) != len(want) || got[0] != want[0] {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	b.Trim(4)
	for l, want := range map[*Log[payload]]int{quiet: 0, busy: 2} {
		if got, _ := after(l.Start()); len(got) != want {
			t.Errorf("trimmed to 4: got %v, want %d batches", got, want)
		}
	}
}

// TestDropped expects a log to report each change that it drops.
func TestDropped(t *testing.T) {
	dropped := 0
	l := New(NewBudget(2*batchBytes), Accounting[payload]{Size: thousand.Size, Dropped: func(*payload) { dropped++ }}, 0)
	appendTo(l, 1, 2, 3)
	if dropped != 1 {
		t.Errorf("over the budget: %d changes are reported as dropped, want 1", dropped)
	}
	if l.Drop(); dropped != 3 {
		t.Errorf("of a dropped log: %d changes are reported as dropped, want 3", dropped)
	}
}

// TestPlacesDoNotRetainChanges keeps places and a batch of a growing log, and checks that the garbage collector frees the
// dropped changes.
func TestPlacesDoNotRetainChanges(t *testing.T) {
	l := newLog(2*batchBytes, 0)
	held := []*Place[payload]{l.End()}
	var batch *Batch[payload]
	var pinned []weak.Pointer[[1000]byte]
	for rev := range store.Revision(10) {
		appendTo(l, rev+1)
		last, err := held[len(held)-1].Next()
		if err != nil {
			t.Fatal(err)
		}
		if held = append(held, last.After); batch == nil {
			batch = last
		}
		pinned = append(pinned, weak.Make(last.Changes[0].bytes))
	}
	runtime.GC()
	runtime.GC()
	n := 0
	for _, p := range pinned {
		if p.Value() != nil {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d of 10 changes are in memory, want the log's two and the one that is being read", n)
	}
	runtime.KeepAlive(held)
	runtime.KeepAlive(batch)
	runtime.KeepAlive(l)
}

func TestTrim(t *testing.T) {
	l := New(NewBudget(1<<20), Accounting[int]{}, 0)
	start := l.Start()
	for rev := range store.Revision(5) {
		l.Append(rev+1, []int{int(rev)})
	}
	l.Trim(3)
	if _, err := start.Next(); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("a reader of trimmed changes: got %v", err)
	}
	if p, ok := l.Since(3); !ok || l.Start() != p {
		t.Error("the log does not begin after the trimmed changes")
	}
	l.Trim(9)
	if !l.empty() || l.budget.Used() != 0 {
		t.Errorf("%d bytes are left", l.budget.Used())
	}
	l.Append(6, []int{6})
	if b, err := l.Start().Next(); err != nil || b.Revision != 6 {
		t.Errorf("got %v %v after the next batch", b, err)
	}
}

// TestCompact moves the batches of a log below its readers: at the start, in the middle, behind a batch that was read and at the end.
func TestCompact(t *testing.T) {
	l := newLog(5*batchBytes, 10)
	readers := []*Place[payload]{l.Start()}
	appendTo(l, 12, 13)
	middle, _ := l.Since(12)
	readers = append(readers, middle)
	appendTo(l, 15)
	read, err := middle.Next() // a reader has this batch, and goes on behind it
	if err != nil {
		t.Fatal(err)
	}
	readers = append(readers, read.After, l.End())
	first := weak.Make(middle.next.Load())
	used, moved := l.budget.Used(), 0
	l.Compact(func(p payload) payload {
		moved++
		return payload{bytes: p.bytes}
	})
	if got := l.budget.Used(); got != used || moved != 3 {
		t.Errorf("%d bytes were used, now %d; %d changes moved", used, got, moved)
	}
	waiting := l.End().Ready()
	appendTo(l, 20)
	<-waiting
	for i, want := range []int{4, 3, 2, 1} {
		if got, err := after(readers[i]); len(got) != want || err != nil || got[len(got)-1] != 20 {
			t.Errorf("reader %d: got %v, %v", i, got, err)
		}
		select {
		case <-readers[i].Ready():
		default:
			t.Errorf("reader %d: its place is not ready", i)
		}
	}
	if p, ok := l.Since(13); !ok || p.Revision != 13 {
		t.Error("no place after change 13")
	} else {
		<-p.Ready()
	}
	appendTo(l, 21, 22, 23, 24)
	if got, err := after(l.Start()); len(got) != 5 || err != nil {
		t.Errorf("after more changes: got %v, %v", got, err)
	}
	if _, err := after(readers[0]); err == nil || readers[0].Revision != 10 {
		t.Errorf("the first reader's changes were dropped: got %v", err)
	}
	read, readers = nil, nil
	runtime.GC()
	if first.Value() != nil {
		t.Error("a batch is held that was moved and read")
	}
	newLog(1, 0).Compact(nil) // empty
}
