package badger_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// writerDir and writerStart are the variables that make a copy of the test binary the process that writes: its directory, and the first
// operation of each writer.
const (
	writerDir   = "MINIKCTL_TEST_WRITER_DIR"
	writerStart = "MINIKCTL_TEST_WRITER_START"
)

const (
	ledgerWriters = 16
	ledgerKeys    = 50 // of each writer; no other writes them
	absent        = -1
)

// smallTables makes tables so small that they are flushed and compacted all the time.
func smallTables(dir string) badger.Config {
	return badger.Config{Dir: filepath.Join(dir, "store"), MemTableBytes: 256 << 10, ReserveBytes: 1 << 20}
}

// operation returns the key and the value (nil: a deletion) of a writer's operation i.
func operation(writer, i int) (key int, value []byte) {
	rng := rand.New(rand.NewPCG(uint64(writer), uint64(i)))
	key = rng.IntN(ledgerKeys)
	if rng.IntN(10) == 0 {
		return key, nil
	}
	n := 100 + rng.IntN(2000)
	if rng.IntN(200) == 0 {
		n = 40 << 10 // goes into the value log
	}
	value = fmt.Appendf(nil, "%d ", i)
	for len(value) < n {
		value = binary.LittleEndian.AppendUint64(value, rng.Uint64())
	}
	return key, value
}

func ledgerKey(writer, key int) string { return fmt.Sprintf("k/%02d/%02d", writer, key) }

// write is the process that is killed, or loses its power. It prints what the store holds at its start, and each acknowledged
// operation, and compacts the store all the time.
func write(dir string) {
	fail := func(err error) {
		fmt.Println("error", err)
		os.Exit(1)
	}
	slog.SetDefault(slog.New(slog.DiscardHandler))
	s, err := badger.Open(smallTables(dir))
	if err != nil {
		fail(err)
	}
	page, err := s.List(context.Background(), "", store.ListOptions{})
	if err != nil {
		fail(err)
	}
	for _, e := range page.Entries {
		i, _, _ := strings.Cut(string(e.Value), " ")
		fmt.Println("has", strings.ReplaceAll(e.Key, "/", " "), i, e.Modified)
	}
	fmt.Println("opened", page.Revision)
	var out sync.Mutex
	for w, start := range strings.Split(os.Getenv(writerStart), ",") {
		go func() {
			var i int
			if _, err := fmt.Sscan(start, &i); err != nil {
				fail(err)
			}
			for ; ; i++ {
				key, value := operation(w, i)
				revs, err := s.Write(context.Background(), store.Op{Key: ledgerKey(w, key), Value: value})
				if err != nil {
					fail(err)
				}
				out.Lock()
				fmt.Println("ack", w, i, revs[0])
				out.Unlock()
				if w == 0 && i%50 == 0 && revs[0] > 100 {
					if err := s.Compact(context.Background(), revs[0]-100); err != nil {
						fail(err)
					}
				}
			}
		}()
	}
	select {}
}

// held is what a key holds: the value of an operation, and its revision. Revision 0: not known.
type held struct {
	operation int // or absent
	revision  store.Revision
}

// outcome returns what a key holds after operation i.
func outcome(i int, value []byte, rev store.Revision) held {
	if value == nil {
		return held{operation: absent}
	}
	return held{i, rev}
}

// is reports whether the store may hold h where got is read.
func (h held) is(got held) bool {
	return h.operation == got.operation && (h.revision == 0 || h.revision == got.revision)
}

// ledger is what a store must hold.
type ledger struct {
	next    [ledgerWriters]int                // the operation that each writer is making: it may be in the store or not
	allowed [ledgerWriters][ledgerKeys][]held // the outcomes that a key may have
	head    store.Revision                    // the newest that was acknowledged or read
	acked   int
}

func newLedger() *ledger {
	l := &ledger{}
	for w := range l.allowed {
		for k := range l.allowed[w] {
			l.allowed[w][k] = []held{{operation: absent}}
		}
	}
	return l
}

// note takes note of a line that the process has printed. found collects what it has read at its start.
func (l *ledger) note(line string, found *holding) error {
	var w, k, i int
	var rev store.Revision
	switch kind, rest, _ := strings.Cut(line, " "); kind {
	case "has":
		if _, err := fmt.Sscanf(rest, "k %d %d %d %d", &w, &k, &i, &rev); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		found[w][k] = held{i, rev}
	case "opened":
		if _, err := fmt.Sscan(rest, &rev); err != nil {
			return err
		}
		if err := l.check(found, rev); err != nil {
			return err
		}
		l.settle(found, rev)
	case "ack":
		if _, err := fmt.Sscan(rest, &w, &i, &rev); err != nil {
			return err
		}
		key, value := operation(w, i)
		l.allowed[w][key] = []held{outcome(i, value, rev)}
		l.next[w], l.head = i+1, max(l.head, rev)
		l.acked++
	default:
		return errors.New(line)
	}
	return nil
}

// holding is what a store holds: the outcome of each key.
type holding [ledgerWriters][ledgerKeys]held

func newHolding() *holding {
	h := new(holding)
	for w := range h {
		for k := range h[w] {
			h[w][k] = held{operation: absent}
		}
	}
	return h
}

// check compares a store with the ledger.
func (l *ledger) check(h *holding, head store.Revision) error {
	var errs []error
	if head < l.head {
		errs = append(errs, fmt.Errorf("head is %d, but %d was acknowledged", head, l.head))
	}
	for w := range h {
		inFlight, value := operation(w, l.next[w])
		for k, got := range h[w] {
			ok := k == inFlight && outcome(l.next[w], value, 0).is(got)
			for _, want := range l.allowed[w][k] {
				ok = ok || want.is(got)
			}
			if !ok {
				errs = append(errs, fmt.Errorf("%s: got operation and revision %v, want one of %v; operation %d is in flight", ledgerKey(w, k), got, l.allowed[w][k], l.next[w]))
			}
		}
	}
	return errors.Join(errs[:min(5, len(errs))]...)
}

// settle records what was read: a later reader must not read anything else.
func (l *ledger) settle(h *holding, head store.Revision) {
	l.head = head
	for w := range h {
		for k, got := range h[w] {
			l.allowed[w][k] = []held{got}
		}
	}
}

// ended returns the ledger after the end of the process: the operations in flight may be in the store, and the writers continue
// after them.
func (l *ledger) ended() *ledger {
	out := *l
	for w := range out.next {
		key, value := operation(w, out.next[w])
		out.allowed[w][key] = append([]held{outcome(out.next[w], value, 0)}, out.allowed[w][key]...)
		out.next[w]++
	}
	return &out
}

func (l *ledger) starts() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(l.next), " ", ","), "[]")
}

// open opens the store of a directory twice, and compares it with the ledger: what the first open leaves must be whole, too.
func (l *ledger) open(ctx context.Context, dir string) error {
	for range 2 {
		s, err := badger.Open(smallTables(dir))
		if err != nil {
			return err
		}
		h, head, err := readHolding(ctx, s)
		if err == nil {
			err = l.check(h, head)
			l.settle(h, head)
		}
		if err = errors.Join(err, s.Close()); err != nil {
			return err
		}
	}
	return nil
}

func readHolding(ctx context.Context, s store.Store) (*holding, store.Revision, error) {
	h := newHolding()
	page, err := s.List(ctx, "", store.ListOptions{})
	if err != nil {
		return nil, 0, err
	}
	for _, e := range page.Entries {
		var w, k, i int
		if _, err := fmt.Sscanf(e.Key, "k/%d/%d", &w, &k); err != nil {
			return nil, 0, err
		}
		if _, err := fmt.Sscan(string(e.Value[:min(20, len(e.Value))]), &i); err != nil {
			return nil, 0, fmt.Errorf("%s is torn: %w", e.Key, err)
		}
		if key, value := operation(w, i); key != k || string(value) != string(e.Value) {
			return nil, 0, fmt.Errorf("%s does not have the value of operation %d, which it begins with", e.Key, i)
		}
		h[w][k] = held{i, e.Modified}
	}
	return h, page.Revision, nil
}
