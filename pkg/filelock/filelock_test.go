package filelock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := Try(path, os.O_RDWR); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if Held(path) {
		t.Error("a missing file is locked")
	}
	first, err := Try(path, os.O_CREATE|os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Try(path, os.O_RDWR); !errors.Is(err, ErrHeld) || !Held(path) {
		t.Errorf("locked twice: %v, held: %v", err, Held(path))
	}
	waited := make(chan error)
	go func() {
		second, err := Wait(path, os.O_RDWR)
		if err == nil {
			err = second.Close()
		}
		waited <- err
	}()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("after the end of the first: %v", err)
	}
	dir, err := Wait(filepath.Dir(path), os.O_RDONLY)
	if err != nil {
		t.Fatalf("a directory: %v", err)
	}
	dir.Close()
}

// TestReplacedFile checks that the lock of a file that was removed, or replaced by another, is not that of its path.
func TestReplacedFile(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "lock")
		first, err := Try(path, os.O_CREATE|os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		same, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if replaced {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if InPlace(first) || InPlace(same) {
			t.Errorf("replaced %v: the file is in place", replaced)
		}
		if Held(path) {
			t.Errorf("replaced %v: the new file is locked", replaced)
		}
		same.Close()
		first.Close()
	}
}
