package badger_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// TestIdleStoreHasNoCompactors: Badger's compactors run only while there is work for them, and begin again when there is.
func TestIdleStoreHasNoCompactors(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, err := badger.Open(badger.Config{Dir: dir, MemTableBytes: 1 << 20, ReserveBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		for round := range 2 {
			time.Sleep(15 * time.Second)
			if compactors() {
				t.Fatal("an idle store has compactors")
			}
			for tables, i := badger.NewTables(s), 0; badger.NewTables(s) < tables+6 && i < 200; i++ {
				value := bytes.Repeat([]byte{byte(i)}, 100<<10)
				if _, err := s.Write(t.Context(), store.Op{Key: fmt.Sprint(round, i), Value: value}); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			full := badger.NewTables(s)
			if full < 5 {
				t.Fatalf("%d new tables are no work for compactors", full)
			}
			time.Sleep(5 * time.Second)
			if n := badger.NewTables(s); n >= full {
				t.Fatalf("%d of %d new tables are left after a compaction", n, full)
			}
			if !compactors() {
				t.Fatal("there are no compactors just after work for them")
			}
		}
	})
}

func compactors() bool {
	stacks := make([]byte, 4<<20)
	return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte("runCompactor("))
}
