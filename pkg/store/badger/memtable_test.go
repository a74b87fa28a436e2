package badger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// TestOpenAfterLargerLog opens a copy of a store's files, as a kill leaves them, with a smaller table in memory than that of
// the writer: the log does not fit into it.
func TestOpenAfterLargerLog(t *testing.T) {
	const objects = 1500
	dir := t.TempDir()
	s, err := badger.Open(badger.Config{Dir: dir, MemTableBytes: 16 << 20, ReserveBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := 0; i < objects; i += 100 {
		var ops []store.Op
		for j := range 100 {
			ops = append(ops, store.Op{Key: fmt.Sprintf("k/%06d", i+j), Value: make([]byte, 8<<10)})
		}
		if _, err := s.Write(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	killed := t.TempDir()
	if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(killed, "lock")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again, err := badger.Open(badger.Config{Dir: killed, ReserveBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		if e, err := again.Get(t.Context(), fmt.Sprintf("k/%06d", objects-1), 0); err != nil || len(e.Value) != 8<<10 {
			t.Errorf("the last object: %d bytes, %v", len(e.Value), err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
