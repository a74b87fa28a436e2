package badger_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// The entries that the store keeps for later writes are those of the events in its log, without the deleted ones, and writes check the
// newest entry of a key whether it is kept or not.
func TestLatestEntries(t *testing.T) {
	s, err := badger.Open(badger.Config{Dir: t.TempDir(), LogBytes: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	write := func(op store.Op) store.Revision {
		t.Helper()
		revs, err := s.Write(t.Context(), op)
		if err != nil {
			t.Fatalf("write %s: %v", op.Key, err)
		}
		return revs[0]
	}
	value := make([]byte, 100)
	const keys = 100 // several times as many as the log holds
	var last [keys]store.Revision
	for i := range keys {
		last[i] = write(store.Op{Key: fmt.Sprint("k", i), Value: value, Expect: store.Absent()})
	}
	for i := range 9 * keys {
		last[i%keys] = write(store.Op{Key: fmt.Sprint("k", i%keys), Value: value, Expect: store.At(last[i%keys])})
	}
	if n := badger.Latest(s); n == 0 || n > 20 {
		t.Errorf("%d entries with a log of 4 KiB", n)
	}
	rev := write(store.Op{Key: "again", Value: value})
	if _, err := s.Write(t.Context(), store.Op{Key: "again", Value: value, Expect: store.At(rev - 1)}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a write that expects an older revision: %v", err)
	}
	rev = write(store.Op{Key: "again", Value: value})
	s.Release()
	if n := badger.Latest(s); n != 0 {
		t.Errorf("%d entries without a log", n)
	}
	write(store.Op{Key: "again", Expect: store.At(rev)})
	if n := badger.Latest(s); n != 0 {
		t.Errorf("%d entries after a deletion", n)
	}
}
