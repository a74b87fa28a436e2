package badger

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	db "github.com/dgraph-io/badger/v4"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/backup"
)

// revisionGap is how many revisions a restored store leaves out. A client may have seen revisions after the backup, and would otherwise
// take later changes with the same revisions for those.
const revisionGap = 1_000_000

// Restore replaces the store in dir by a backup, and keeps what was there in the directory that it returns; "" when there was
// nothing. The objects keep their revisions. The store continues at a higher revision than any before, and the revisions before
// it count as compacted, so that clients list again. The error is ErrLocked while the store is open. After an error the store is
// as it was.
func Restore(dir string, from io.Reader) (sum backup.Summary, kept string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return sum, "", err
	}
	lock, err := acquire(lockFile(dir))
	if err != nil {
		return sum, "", fmt.Errorf("restore store in %s: %w", dir, err)
	}
	defer lock.Close()
	replaced, err := readGuard(guardFile(dir))
	if err != nil {
		return sum, "", err
	}
	made := dir + ".new"
	if err := os.RemoveAll(made); err != nil {
		return sum, "", err
	}
	if sum, err = build(made, from, replaced.last); err != nil {
		return sum, "", errors.Join(fmt.Errorf("restore store in %s: %w", dir, err), os.RemoveAll(made))
	}
	if _, err := check(made, &guard{last: sum.Revision + revisionGap, digested: true}); err != nil {
		return sum, "", errors.Join(fmt.Errorf("restore store in %s: %w", dir, err), os.RemoveAll(made))
	}
	if !exists(dir) {
		return sum, "", errors.Join(os.RemoveAll(dir), os.Rename(made, dir), syncParents(dir))
	}
	if kept, err = unusedName(dir + ".replaced"); err != nil {
		return sum, "", err
	}
	if err := os.Rename(dir, kept); err != nil {
		return sum, "", err
	}
	return sum, kept, errors.Join(os.Rename(made, dir), syncPath(filepath.Dir(dir)))
}

// unusedName returns path, or path with the first number that makes it the name of no file.
func unusedName(path string) (string, error) {
	for i := 1; ; i++ {
		name := path
		if i > 1 {
			name = fmt.Sprintf("%s-%d", path, i)
		}
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
	}
}

// build makes a store in dir from a backup. Its first revision is above those of the backup and above acked.
func build(dir string, from io.Reader, acked store.Revision) (sum backup.Summary, err error) {
	if err := os.MkdirAll(database(dir), 0o700); err != nil {
		return sum, err
	}
	d, err := db.OpenManaged(badgerOptions(database(dir)))
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	names, err := openNames(database(dir), memTable)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, names.dir.Close()) }()
	s := &Store{db: d, dir: dir, names: names, guard: &guard{path: guardFile(dir)}}
	wb := d.NewManagedWriteBatch()
	defer wb.Cancel()
	sum, err = backup.Read(from, func(e store.Entry) error {
		s.live.add([]byte(e.Key), e.Modified)
		return wb.SetEntryAt(db.NewEntry(objectKey(e.Key), encode(e.Created, e.Value)), uint64(e.Modified))
	})
	if err != nil {
		return sum, err
	}
	head := max(sum.Revision, acked) + revisionGap
	if err := s.record(wb, meta{compacted: head, complete: head, live: s.live}, head, 0); err != nil {
		return sum, err
	}
	return sum, errors.Join(s.guard.close(), syncPath(dir))
}
