package badger_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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

// TestStoreWithoutDigest opens a store of a version that kept no digest, with and without that version's record of the compacted
// revision. All objects are there as they were, and the first open makes a digest: a deletion behind the store's back is found
// after it, and is not found before.
func TestStoreWithoutDigest(t *testing.T) {
	for name, compacted := range map[string]store.Revision{"never compacted": 0, "compacted": 4} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			oldStore(t, dir, compacted)
			for i := range 2 {
				s := open(t, dir)
				checkOldStore(t, s, compacted)
				if head, err := s.Head(t.Context()); err != nil || head != 11 {
					t.Errorf("open %d: head is %d, %v, want the digest's revision, 11", i+1, head, err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			deleteBehind(t, dir)
			if _, err := badger.Open(badger.Config{Dir: dir}); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "9 objects are on disk") {
				t.Errorf("open after an object was lost: got %v, want %v", err, store.ErrDamaged)
			}
			fresh := t.TempDir()
			oldStore(t, fresh, compacted)
			deleteBehind(t, fresh)
			s := open(t, fresh) // there is nothing that shows the loss
			if n := len(contentOf(t, s)); n != 9 {
				t.Errorf("%d objects, want 9", n)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// oldStore makes a store as the version without digest wrote it: ten objects, k/0 to k/9, at the revisions 1 to 10.
func oldStore(t *testing.T, dir string, compacted store.Revision) {
	t.Helper()
	inBadger(t, dir, func(wb *db.WriteBatch) (err error) {
		for i := range 10 {
			e := db.NewEntry(badger.ObjectKey(fmt.Sprint("k/", i)), badger.Encode(store.Revision(i+1), fmt.Append(nil, "value ", i)))
			err = errors.Join(err, wb.SetEntryAt(e, uint64(i+1)))
		}
		if compacted > 0 {
			err = errors.Join(err, wb.SetEntryAt(db.NewEntry([]byte("m"), binary.AppendUvarint(nil, uint64(compacted))), 10))
		}
		return err
	})
	if err := os.WriteFile(filepath.Join(dir, "head"), []byte("10"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// checkOldStore checks that the objects of oldStore are all there, and their past revisions from the compacted one on.
func checkOldStore(t *testing.T, s store.Store, compacted store.Revision) {
	t.Helper()
	got := contentOf(t, s)
	for i := range 10 {
		key, rev := fmt.Sprint("k/", i), store.Revision(i+1)
		if e := got[key]; string(e.Value) != fmt.Sprint("value ", i) || e.Created != rev || e.Modified != rev {
			t.Errorf("%s: got %q of revision %d, created at %d", key, e.Value, e.Modified, e.Created)
		}
	}
	if len(got) != 10 {
		t.Errorf("%d objects, want 10", len(got))
	}
	for at := store.Revision(1); at <= 10; at++ {
		page, err := s.List(t.Context(), "", store.ListOptions{At: at})
		if at < compacted && !errors.Is(err, store.ErrCompacted) {
			t.Errorf("list at %d: got %v, want %v", at, err, store.ErrCompacted)
		}
		if at >= compacted && (err != nil || len(page.Entries) != int(at)) {
			t.Errorf("list at %d: got %d objects, %v", at, len(page.Entries), err)
		}
	}
}

// deleteBehind deletes k/3 with Badger alone, at a revision that the store has had.
func deleteBehind(t *testing.T, dir string) {
	t.Helper()
	inBadger(t, dir, func(wb *db.WriteBatch) error { return wb.DeleteAt(badger.ObjectKey("k/3"), 9) })
}

// inBadger changes the database of a store that is not open.
func inBadger(t *testing.T, dir string, change func(*db.WriteBatch) error) {
	t.Helper()
	d, err := db.OpenManaged(badger.Options(filepath.Join(dir, "badger")))
	if err != nil {
		t.Fatal(err)
	}
	wb := d.NewManagedWriteBatch()
	if err := errors.Join(change(wb), wb.Flush(), d.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestRemovedStoreDir removes the database of an open store. Badger alone would retry its last write for ever.
func TestRemovedStoreDir(t *testing.T) {
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
