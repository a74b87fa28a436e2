package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	db "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/changelog"
)

// Open opens the store in cfg.Dir, or makes it. The error is ErrLocked when another process has it open. Open refuses a store
// whose files have lost acknowledged revisions.
func Open(cfg Config) (*Store, error) {
	if cfg.ReserveBytes == 0 {
		cfg.ReserveBytes = 128 << 20
	}
	if cfg.LogBytes == 0 {
		cfg.LogBytes = 8 << 20
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lock, err := acquire(filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", cfg.Dir, err)
	}
	s, err := open(cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store in %s: %w", cfg.Dir, err), lock.Close())
	}
	s.lock = lock
	s.running.Go(s.commit)
	s.running.Go(func() { s.watch(s.stop) })
	return s, nil
}

func open(cfg Config) (*Store, error) {
	dir := filepath.Join(cfg.Dir, "badger")
	if err := removeEmptyLogs(dir); err != nil {
		return nil, err
	}
	kept := ballast{cfg.Dir, filepath.Join(cfg.Dir, "ballast"), cfg.ReserveBytes}
	if err := kept.makeRoom(); err != nil {
		return nil, err // Badger would crash on it instead of returning an error
	}
	d, err := db.OpenManaged(lean(dir))
	if err != nil {
		return nil, err
	}
	s := &Store{db: d, dir: cfg.Dir, ballast: kept, requests: make(chan *request, maxBatch), stop: make(chan struct{})}
	if err := s.recover(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	s.log = changelog.NewEvents(store.Revision(s.head.Load()), cfg.LogBytes)
	return s, nil
}

// lean are the options of docs/adr/0002-badger.md: small tables, no caches, every write synced, no value log in use.
func lean(dir string) db.Options {
	return db.DefaultOptions(dir).
		WithMemTableSize(memTable).WithNumMemtables(2).WithNumCompactors(2).WithNumGoroutines(1).
		WithBlockCacheSize(0).WithIndexCacheSize(0).WithCompression(options.None).
		WithValueThreshold(valueThreshold).WithValueLogFileSize(64 << 20).
		WithDetectConflicts(false).WithMetricsEnabled(false).WithSyncWrites(true).
		WithNumVersionsToKeep(1).WithBypassLockGuard(true). // the store has its own lock
		WithLogger(logger{})
}

// recover reads the head and the compacted revision, and compares the head with the guard file.
func (s *Store) recover() error {
	head := s.db.MaxVersion()
	compacted, err := s.readMeta(head)
	if err != nil {
		return err
	}
	s.guard, err = openGuard(filepath.Join(s.dir, "head"))
	if err != nil {
		return err
	}
	if head < uint64(s.guard.last) {
		return fmt.Errorf("the newest revision on disk is %d, but %d had been acknowledged: files are damaged or missing", head, s.guard.last)
	}
	s.head.Store(head)
	s.compacted.Store(compacted)
	s.db.SetDiscardTs(compacted)
	return s.verify()
}

func (s *Store) readMeta(head uint64) (compacted uint64, err error) {
	txn := s.db.NewTransactionAt(head, false)
	defer txn.Discard()
	item, err := txn.Get(metaKey)
	if errors.Is(err, db.ErrKeyNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read meta record: %w", err)
	}
	err = item.Value(func(b []byte) error {
		var n int
		if compacted, n = binary.Uvarint(b); n <= 0 {
			return errCorrupt
		}
		return nil
	})
	return compacted, err
}

// verify checks the tables: a damaged block would otherwise end a list early without an error. A large database is checked in the
// background.
func (s *Store) verify() error {
	lsm, _ := s.db.Size()
	if lsm <= verifyInFront {
		return s.db.VerifyChecksum()
	}
	s.running.Go(func() {
		if err := s.db.VerifyChecksum(); err != nil {
			s.fail(fmt.Errorf("verify tables: %w", err))
		}
	})
	return nil
}

// fail makes the store read-only.
func (s *Store) fail(err error) {
	if s.failed.CompareAndSwap(nil, &err) {
		slog.Error("store is read-only", "err", err)
	}
}

// removeEmptyLogs removes the zero-length logs that a kill can leave and that Badger refuses to open
// (https://github.com/dgraph-io/badger/issues/2207).
func removeEmptyLogs(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".mem") && !strings.HasSuffix(e.Name(), ".vlog") {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Size() == 0 {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// acquire takes the lock file, which the kernel releases when the process ends.
func acquire(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(store.ErrLocked, f.Close())
	}
	return f, nil
}

// freeSpace returns the bytes that this process may use in dir.
func freeSpace(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("read free space: %w", err)
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// checkSpace returns ErrNoSpace when fewer than want bytes are free in dir.
func checkSpace(dir string, want uint64) error {
	free, err := freeSpace(dir)
	if err != nil {
		return err
	}
	if free < want {
		return fmt.Errorf("%w: %d MiB are free in %s and %d MiB are kept in reserve", store.ErrNoSpace, free>>20, dir, want>>20)
	}
	return nil
}
