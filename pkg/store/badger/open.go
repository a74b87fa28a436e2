package badger

import (
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

	"github.com/minikctl/minikctl/pkg/filelock"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/changelog"
)

// Open opens the store in cfg.Dir, or makes it. The error is ErrLocked when another process has it open, and ErrDamaged
// when its files are not whole: something that was acknowledged is missing or can't be read. Open does not change such a
// store.
func Open(cfg Config) (*Store, error) {
	if cfg.ReserveBytes == 0 {
		cfg.ReserveBytes = 128 << 20
	}
	if cfg.LogBytes == 0 {
		cfg.LogBytes = 8 << 20
	}
	if cfg.MemTableBytes == 0 {
		cfg.MemTableBytes = memTable
	}
	if cfg.MustExist && !exists(cfg.Dir) {
		return nil, fmt.Errorf("open store in %s: %w: the directory is missing or empty", cfg.Dir, store.ErrDamaged)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	lock, err := acquire(lockFile(cfg.Dir))
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
	s.running.Go(func() { runCompactors(s.db, s.stop) })
	return s, nil
}

// The files in the directory of a store.
func lockFile(dir string) string  { return filepath.Join(dir, "lock") }
func guardFile(dir string) string { return filepath.Join(dir, "head") }
func database(dir string) string  { return filepath.Join(dir, "badger") }

// exists reports whether dir has a file that shows that a store was used there.
func exists(dir string) bool {
	for _, path := range []string{guardFile(dir), filepath.Join(database(dir), db.ManifestFilename)} {
		if _, err := os.Lstat(path); err == nil {
			return true
		}
	}
	return false
}

func open(cfg Config) (*Store, error) {
	guard, err := readGuard(guardFile(cfg.Dir))
	if err != nil {
		return nil, err
	}
	found, err := check(cfg.Dir, guard)
	if err != nil {
		return nil, err
	}
	if err := prepare(cfg.Dir, guard, found); err != nil {
		return nil, err
	}
	dir := database(cfg.Dir)
	kept := ballast{cfg.Dir, filepath.Join(cfg.Dir, "ballast"), cfg.ReserveBytes}
	if err := kept.makeRoom(); err != nil {
		return nil, err // Badger would crash on it instead of returning an error
	}
	size, err := memTableSize(dir, cfg.MemTableBytes)
	if err != nil {
		return nil, err
	}
	d, err := db.OpenManaged(badgerOptions(dir).WithMemTableSize(size).WithValueThreshold(min(valueThreshold, size/8)))
	if err != nil {
		return nil, err
	}
	names, err := openNames(dir, size)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	s := &Store{
		db: d, dir: cfg.Dir, names: names, ballast: kept, guard: guard, live: found.live, complete: found.meta.complete,
		requests: make(chan *request, maxBatch), stop: make(chan struct{}),
	}
	if err := s.recover(found); err != nil {
		return nil, errors.Join(err, d.Close(), names.dir.Close())
	}
	s.log = changelog.NewEvents(store.Revision(s.head.Load()), cfg.LogBytes, s.latest.drop)
	return s, nil
}

// memTableSize returns the size of Badger's tables in memory: want, or more for a log that would not fit into such a table. Badger would
// end the process on it. It creates a log with twice the size of a table.
func memTableSize(dir string, want int64) (int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	size := want
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".mem" {
			continue
		}
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		if log := info.Size(); log > want && log != 2*want {
			size = max(size, min(log, max(want, memTableBefore)))
		}
	}
	return size, nil
}

// prepare makes the files of a store fit for Badger, once check has shown that they are whole.
func prepare(dir string, g *guard, found state) error {
	if g.last == 0 { // also with directories that a killed process has created and not made durable
		if err := makeDirs(dir); err != nil {
			return err
		}
	}
	dir = database(dir)
	if err := removeEmptyLogs(dir); err != nil {
		return err
	}
	if err := removeKeyRegistry(dir); err != nil {
		return err
	}
	if err := found.repair.apply(dir); err != nil {
		return err
	}
	return persist(dir)
}

// check verifies the files of a store before Badger opens them: Badger would delete tables that a damaged MANIFEST does not list
// and truncate damaged logs. A new store has none.
func check(dir string, g *guard) (state, error) {
	f, err := openFiles(database(dir))
	if errors.Is(err, fs.ErrNotExist) {
		if g.last == 0 {
			return state{}, nil
		}
		return state{}, fmt.Errorf("%w: the database is missing, but revision %d had been acknowledged", store.ErrDamaged, g.last)
	}
	if err != nil {
		return state{}, fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	defer f.close()
	found, err := verify(f, g.last, g.digested)
	if err != nil {
		return state{}, fmt.Errorf("%w: %w", store.ErrDamaged, err)
	}
	return found, nil
}

// badgerOptions are the options of docs/adr/0002-badger.md: small tables, no caches, every write synced, no value log in use.
func badgerOptions(dir string) db.Options {
	return db.DefaultOptions(dir).
		WithMemTableSize(memTable).WithNumMemtables(2).WithNumCompactors(2).WithNumGoroutines(1).
		WithBlockCacheSize(0).WithIndexCacheSize(0).WithCompression(options.None).
		WithValueThreshold(valueThreshold).WithValueLogFileSize(64 << 20).
		WithDetectConflicts(false).WithMetricsEnabled(false).WithSyncWrites(true).
		WithNumVersionsToKeep(1).WithBypassLockGuard(true). // the store has its own lock
		WithLogger(logger{})
}

// recover sets the head and the compacted revision to the state that check found, and records the directory of the files, so
// that its removal is detected.
func (s *Store) recover(found state) error {
	var err error
	if s.directory, err = os.Stat(database(s.dir)); err != nil {
		return err
	}
	if head := s.db.MaxVersion(); head < uint64(found.head) {
		return fmt.Errorf("%w: Badger has read revisions up to %d, but %d is on disk", store.ErrDamaged, head, found.head)
	}
	s.head.Store(uint64(found.head))
	s.compacted.Store(uint64(found.meta.compacted))
	if found.adopt || found.truncated {
		if err := s.adopt(found); err != nil {
			return err
		}
	}
	s.db.SetDiscardTs(s.compacted.Load())
	return nil
}

// adopt writes a first record for files that no record describes, at a revision of its own. Changes that are not complete on
// disk are compacted away: clients list again.
func (s *Store) adopt(found state) error {
	head := found.head + 1
	s.complete = head
	m := meta{compacted: found.meta.compacted, complete: head, live: found.live}
	if found.truncated {
		slog.Warn("past revisions are missing and count as compacted; no object is missing", "revision", found.head)
		m.compacted = head
	}
	wb := s.db.NewManagedWriteBatch()
	defer wb.Cancel()
	if err := s.record(wb, m, head, 0); err != nil {
		return err
	}
	s.head.Store(uint64(head))
	s.compacted.Store(uint64(m.compacted))
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

// removeKeyRegistry removes Badger's list of encryption keys if it is not the empty list that minikctl's stores have: Badger refuses
// a damaged list, and creates a missing one.
func removeKeyRegistry(dir string) error {
	const (
		iv   = 16 // length of the random bytes at the start
		text = "Hello Badger"
	)
	path := filepath.Join(dir, db.KeyRegistryFileName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || len(b) == iv+len(text) && string(b[iv:]) == text {
		return nil
	}
	return os.Remove(path)
}

// acquire takes the lock file, which the kernel releases when the process ends.
func acquire(path string) (*os.File, error) {
	f, err := filelock.Try(path, os.O_CREATE|os.O_RDWR)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, store.ErrLocked
	}
	return f, err
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
