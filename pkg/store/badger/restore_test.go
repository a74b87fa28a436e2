package badger_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	db "github.com/dgraph-io/badger/v4"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/backup"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// TestRestore restores a backup over a store that was changed since, and damaged.
func TestRestore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s := open(t, dir)
	put(t, s, "small", 300, 300)
	put(t, s, "huge", 1, 1200<<10)
	deleteSome(t, s, "small", 300)
	want := contentOf(t, s)
	var b bytes.Buffer
	sum, err := backup.Write(t.Context(), s, &b)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "later", 50, 300)
	last, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := badger.Restore(dir, bytes.NewReader(b.Bytes())); !errors.Is(err, store.ErrLocked) {
		t.Errorf("restore while the store is open: got %v, want %v", err, store.ErrLocked)
	}
	if err := errors.Join(s.Close(), os.Remove(filepath.Join(dir, "badger", "MANIFEST"))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := badger.Restore(dir, bytes.NewReader(b.Bytes()[:b.Len()-1])); !errors.Is(err, backup.ErrDamaged) {
		t.Errorf("restore of a cut backup: got %v, want %v", err, backup.ErrDamaged)
	}
	got, kept, err := badger.Restore(dir, bytes.NewReader(b.Bytes()))
	if err != nil || got != sum {
		t.Fatalf("restore: %+v, %v, want %+v", got, err, sum)
	}
	if _, err := os.Stat(filepath.Join(kept, "badger")); err != nil {
		t.Errorf("the damaged store is not kept: %v", err)
	}
	for range 2 {
		s := open(t, dir)
		if !contentOf(t, s).equal(want) {
			t.Error("the restored objects differ")
		}
		for _, err := range s.Watch(t.Context(), "", last) {
			if !errors.Is(err, store.ErrCompacted) {
				t.Errorf("a watch from before the restore: got %v, want %v", err, store.ErrCompacted)
			}
		}
		revs, err := s.Write(t.Context(), store.Op{Key: "after", Value: []byte("v")})
		if err != nil || revs[0] <= last {
			t.Errorf("a write after the restore: revision %v, %v, want one above %d", revs, err, last)
		}
		if _, err := s.Write(t.Context(), store.Op{Key: "after"}); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStoreWithoutDigest opens a store of a version that kept no digest. Its first open makes one.
func TestStoreWithoutDigest(t *testing.T) {
	dir := t.TempDir()
	d, err := db.OpenManaged(badger.Options(filepath.Join(dir, "badger")))
	if err != nil {
		t.Fatal(err)
	}
	wb := d.NewManagedWriteBatch()
	for i := range 10 {
		e := db.NewEntry(badger.ObjectKey(fmt.Sprint("k/", i)), badger.Encode(store.Revision(i+1), []byte("value")))
		if err := wb.SetEntryAt(e, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(wb.Flush(), d.Close(), os.WriteFile(filepath.Join(dir, "head"), []byte("10"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		s := open(t, dir)
		if n := len(contentOf(t, s)); n != 10 {
			t.Errorf("%d objects, want 10", n)
		}
		if _, err := s.Get(t.Context(), "k/3", 5); err != nil {
			t.Errorf("a past revision: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	manifest := filepath.Join(dir, "badger", "MANIFEST")
	if err := os.Truncate(manifest, 8); err != nil {
		t.Fatal(err)
	}
	if _, err := badger.Open(badger.Config{Dir: dir}); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("open with an emptied MANIFEST: got %v, want %v", err, store.ErrDamaged)
	}
}

// TestRemovedFolder removes the database of an open store. Badger alone would retry its last write for ever.
func TestRemovedFolder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	put(t, s, "k", 10, 300)
	if err := os.RemoveAll(filepath.Join(dir, "badger")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err == nil {
		t.Error("the store closes without an error")
	}
}
