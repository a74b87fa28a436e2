package badger_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

func fill(t *testing.T, dir string, n int) {
	t.Helper()
	s := open(t, dir)
	for i := range n {
		if _, err := s.Write(t.Context(), store.Op{Key: fmt.Sprint("k/", i), Value: []byte("value")}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestLocked(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	if _, err := badger.Open(badger.Config{Dir: dir}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("second open: got %v, want %v", err, store.ErrLocked)
	}
}

func TestEmptyLogsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 10)
	for _, name := range []string{"00099.mem", "000099.vlog"} {
		if err := os.WriteFile(filepath.Join(dir, "badger", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir)
	defer s.Close()
	if page, err := s.List(t.Context(), "k/", store.ListOptions{}); err != nil || len(page.Entries) != 10 {
		t.Errorf("got %d entries, %v", len(page.Entries), err)
	}
}

// TestMissingDatabaseFiles removes files of a closed store: Badger opens the rest without an error.
func TestMissingDatabaseFiles(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 10)
	if err := os.RemoveAll(filepath.Join(dir, "badger")); err != nil {
		t.Fatal(err)
	}
	if _, err := badger.Open(badger.Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "had been acknowledged") {
		t.Errorf("open after the loss of all files: got %v", err)
	}
}

// TestEmptyGuard opens a store with an empty guard file, as a loss of power can leave it.
func TestEmptyGuard(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 10)
	if err := os.Truncate(filepath.Join(dir, "head"), 0); err != nil {
		t.Fatal(err)
	}
	open(t, dir).Close()
}

// TestDamagedTable flips a byte in a table and expects an error of Open.
func TestDamagedTable(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 2000)
	tables, err := filepath.Glob(filepath.Join(dir, "badger", "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	b, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/3] ^= 0xff
	if err := os.WriteFile(tables[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := badger.Open(badger.Config{Dir: dir}); err == nil {
		t.Error("a damaged table was opened without an error")
	}
}

func TestNoSpace(t *testing.T) {
	dir := t.TempDir()
	fill(t, dir, 1)
	if _, err := badger.Open(badger.Config{Dir: dir, ReserveBytes: 1 << 62}); !errors.Is(err, store.ErrNoSpace) {
		t.Errorf("open with too little space: got %v, want %v", err, store.ErrNoSpace)
	}
}

func TestTooLarge(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	secret := strings.Repeat("s3cret", badger.MaxValue/6+1)
	_, err := s.Write(t.Context(), store.Op{Key: "k", Value: []byte(secret)})
	if !errors.Is(err, store.ErrTooLarge) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v, want %v without the value", err, store.ErrTooLarge)
	}
	if _, err = s.Write(t.Context(), store.Op{Key: "k", Value: []byte(secret[:badger.MaxValue])}); err != nil {
		t.Errorf("the largest value: %v", err)
	}
}

func TestReadOnlyDir(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if _, err := badger.Open(badger.Config{Dir: filepath.Join(dir, "data")}); !errors.Is(err, os.ErrPermission) {
		t.Errorf("got %v, want %v", err, os.ErrPermission)
	}
}
