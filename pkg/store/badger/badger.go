// Package badger is the store on disk: an embedded Badger database in managed mode, whose version is our revision.
//
// Each object is one key; Badger keeps its versions, which gives reads at a past revision, the object before a deletion,
// and changes since a revision, with one copy of each value. One goroutine commits: it takes all writes that wait, checks
// them, gives them revisions and syncs once for all. The package guards against what Badger does not handle by itself
// (docs/adr/0002-badger.md): zero-length logs after a kill, a full disk, a head that goes back, reads below the compacted revision,
// and files that are missing or damaged. Each commit writes a record with a digest of all live objects, and Open verifies the files
// by it before Badger opens them.
package badger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	db "github.com/dgraph-io/badger/v4"

	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/changelog"
)

// Config sets the directory and the limits of a store.
type Config struct {
	Dir string // made if absent, readable by its owner only

	// MustExist makes Open refuse a directory without a store instead of creating an empty one. It is for the directory of a
	// cluster that has run before.
	MustExist bool

	// ReserveBytes is the free disk space that the store leaves alone. Below it writes return store.ErrNoSpace, below a
	// quarter of it deletions do too. Badger dies by SIGBUS on a full disk, so the reserve must leave room for its
	// compactions. A file (the ballast) takes half as much in addition. When other programs have filled the disk, the
	// store removes the file, so that deletions and the next start succeed. 0: 128 MiB.
	ReserveBytes uint64
	// LogBytes bounds the recent changes that are held in memory for watches. 0: 8 MiB.
	LogBytes int
	// MemTableBytes is how many bytes of changes Badger collects in memory before it writes a table. 0: 8 MiB. Tests make
	// it small.
	MemTableBytes int64
}

// MaxValue is the size of the largest value.
const MaxValue = store.MaxValue

const (
	memTable       = 8 << 20
	memTableBefore = 16 << 20 // the size with which older versions wrote logs
	valueThreshold = 1 << 20  // the most that Badger allows; only larger values go into the value log
)

// Keys in Badger: objects, and the meta record.
const objectPrefix = "o"

var metaKey = []byte("m")

// Store is a store.Store on disk. Open makes one.
type Store struct {
	db        *db.DB
	dir       string
	directory os.FileInfo // of the database
	ballast   ballast
	lock      *os.File
	guard     *guard
	names     *names
	log       *changelog.Events
	latest    latest

	// The parts of the next meta record; only the committing goroutine uses them.
	live     digest
	complete store.Revision

	head      atomic.Uint64 // the newest published revision
	compacted atomic.Uint64
	failed    atomic.Pointer[error] // the reason that the store is read-only

	requests chan *request
	stop     chan struct{}
	closing  sync.Once
	running  sync.WaitGroup
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errCorrupt is reported for a value whose checksum is wrong. The value is not part of the text.
var errCorrupt = errors.New("stored value is damaged")

// encode returns the bytes that Badger stores: the revision of creation, a checksum, and the value.
func encode(created store.Revision, value []byte) []byte {
	return appendValue(make([]byte, 0, encodedSize(value)), created, value)
}

// encodedSize is the most that encode returns for a value.
func encodedSize(value []byte) int { return binary.MaxVarintLen64 + crc32.Size + len(value) }

// appendValue appends to b what encode returns.
func appendValue(b []byte, created store.Revision, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(created))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(value, castagnoli))
	return append(b, value...)
}

func decode(b []byte) (created store.Revision, value []byte, err error) {
	c, n := binary.Uvarint(b)
	if n <= 0 || len(b) < n+crc32.Size {
		return 0, nil, errCorrupt
	}
	sum, value := binary.LittleEndian.Uint32(b[n:]), b[n+crc32.Size:]
	if crc32.Checksum(value, castagnoli) != sum {
		return 0, nil, errCorrupt
	}
	return store.Revision(c), value, nil
}

func objectKey(key string) []byte { return append([]byte(objectPrefix), key...) }

// readable turns a requested revision into one that can be read now.
func (s *Store) readable(at store.Revision) (store.Revision, error) {
	head := store.Revision(s.head.Load())
	switch {
	case at == 0:
		return head, nil
	case at > head:
		return 0, store.ErrFuture
	case at < store.Revision(s.compacted.Load()):
		return 0, store.ErrCompacted
	}
	return at, nil
}

// Get implements store.Store.
func (s *Store) Get(_ context.Context, key string, at store.Revision) (store.Entry, error) {
	at, err := s.readable(at)
	if err != nil {
		return store.Entry{}, err
	}
	e, err := s.get(key, at)
	if err != nil {
		return store.Entry{}, err
	}
	return e, s.Retains(at)
}

func (s *Store) get(key string, at store.Revision) (store.Entry, error) {
	txn := s.db.NewTransactionAt(uint64(at), false)
	defer txn.Discard()
	item, err := txn.Get(objectKey(key))
	if errors.Is(err, db.ErrKeyNotFound) {
		return store.Entry{}, store.ErrNotFound
	}
	if err != nil {
		return store.Entry{}, fmt.Errorf("read %s: %w", key, err)
	}
	return entry(item)
}

func entry(item *db.Item) (store.Entry, error) {
	key := string(item.Key()[len(objectPrefix):])
	raw, err := item.ValueCopy(nil)
	if err != nil {
		return store.Entry{}, fmt.Errorf("read %s: %w", key, err)
	}
	created, value, err := decode(raw)
	if err != nil {
		return store.Entry{}, fmt.Errorf("read %s: %w", key, err)
	}
	return store.Entry{Key: key, Value: value, Created: created, Modified: store.Revision(item.Version())}, nil
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, prefix string, opts store.ListOptions) (store.Page, error) {
	at, err := s.readable(opts.At)
	if err != nil {
		return store.Page{}, err
	}
	page := store.Page{Revision: at}
	txn := s.db.NewTransactionAt(uint64(at), false)
	defer txn.Discard()
	const ahead = 8 // how many values Badger copies ahead, on another processor
	it := txn.NewIterator(db.IteratorOptions{Prefix: objectKey(prefix), PrefetchValues: !opts.Keys, PrefetchSize: ahead})
	defer it.Close()
	size := 0
	for it.Seek(objectKey(max(prefix, opts.After))); it.Valid(); it.Next() {
		item := it.Item()
		key := item.Key()[len(objectPrefix):]
		if string(key) <= opts.After {
			continue
		}
		if opts.Full(len(page.Entries), size) {
			page.More = true
			break
		}
		var e store.Entry
		if opts.Keys {
			e = store.Entry{Key: string(key), Modified: store.Revision(item.Version())}
		} else if e, err = entry(item); err != nil {
			return store.Page{}, err
		}
		page.Entries = append(page.Entries, e)
		size += len(e.Value)
		if len(page.Entries)%1024 == 0 && ctx.Err() != nil {
			return store.Page{}, ctx.Err()
		}
	}
	return page, s.Retains(at)
}

// Watch implements store.Store.
func (s *Store) Watch(ctx context.Context, prefix string, from store.Revision) iter.Seq2[store.Batch, error] {
	if err := s.Retains(from); err != nil {
		return func(yield func(store.Batch, error) bool) { yield(store.Batch{}, err) }
	}
	return changelog.Watch(ctx, s.log, s, prefix, from)
}

// Retains implements changelog.Past, and checks a read after it was made: below its discard mark Badger returns anything.
func (s *Store) Retains(from store.Revision) error {
	if from < store.Revision(s.compacted.Load()) {
		return store.ErrCompacted
	}
	return nil
}

// Scan implements changelog.Past.
func (s *Store) Scan(ctx context.Context, prefix string, from, to store.Revision, yield func(string, store.Revision) bool) error {
	txn := s.db.NewTransactionAt(uint64(to), false)
	defer txn.Discard()
	it := txn.NewIterator(db.IteratorOptions{Prefix: objectKey(prefix), AllVersions: true, SinceTs: uint64(from)})
	defer it.Close()
	var key string // the versions of a key follow one another, and share it
	for it.Rewind(); it.Valid() && ctx.Err() == nil; it.Next() {
		item := it.Item()
		if k := item.Key()[len(objectPrefix):]; string(k) != key {
			key = string(k)
		}
		if !yield(key, store.Revision(item.Version())) {
			return nil
		}
	}
	return ctx.Err()
}

// Change implements changelog.Past.
func (s *Store) Change(key string, rev store.Revision) (store.Event, error) {
	ev := store.Event{Key: key, Revision: rev}
	switch e, err := s.get(key, rev); {
	case err == nil:
		ev.Value, ev.Created = e.Value, e.Created
	case !errors.Is(err, store.ErrNotFound): // which is a deletion
		return ev, err
	}
	switch prev, err := s.get(key, rev-1); {
	case err == nil:
		ev.Prev, ev.PrevRev = prev.Value, prev.Modified
	case !errors.Is(err, store.ErrNotFound):
		return ev, err
	}
	return ev, nil
}

// Head implements store.Store.
func (s *Store) Head(context.Context) (store.Revision, error) {
	return store.Revision(s.head.Load()), nil
}

// closeTimeout is how long Close waits for Badger, which retries failed writes for ever. A slow disk takes seconds.
const closeTimeout = time.Minute

// errRemoved is reported once the database's directory is no longer at its path.
var errRemoved = errors.New("the directory of the database was removed while it was in use")

// Close implements store.Store. It returns an error without waiting for Badger when the files are gone, and after closeTimeout.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.stop)
		closed := make(chan error, 1)
		go func() {
			s.running.Wait()
			if s.removed() {
				closed <- errRemoved
				return
			}
			closed <- s.db.Close()
		}()
		err = s.awaitClose(closed)
		s.log.Close(store.ErrClosed)
		err = errors.Join(err, s.guard.close(), s.names.dir.Close(), s.lock.Close())
	})
	return err
}

// awaitClose returns what closed receives. It returns an error when the files are gone, and after closeTimeout.
func (s *Store) awaitClose(closed <-chan error) error {
	tick := time.NewTicker(watchEvery) //nolint:forbidigo // Badger does not use the cluster's clock
	defer tick.Stop()
	for range closeTimeout / watchEvery {
		select {
		case err := <-closed:
			return err
		case <-tick.C:
			if s.removed() {
				return errRemoved
			}
		}
	}
	return fmt.Errorf("badger did not close within %s", closeTimeout)
}

// removed reports whether the database's directory is no longer at its path.
func (s *Store) removed() bool {
	now, err := os.Stat(database(s.dir))
	return errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(now, s.directory)
}

// watchEvery is the interval at which the ballast and the directory are looked at.
const watchEvery = time.Second

// watch keeps the ballast, and makes the store read-only when its directory is removed: what is written then is lost. It uses the
// machine's clock: files have nothing to do with the cluster's time.
func (s *Store) watch(stop <-chan struct{}) {
	tick := time.NewTicker(watchEvery) //nolint:forbidigo // see above
	defer tick.Stop()
	keep := true
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			if s.removed() {
				s.fail(errRemoved)
				return
			}
			if !keep {
				continue
			}
			if err := s.ballast.keep(); err != nil {
				slog.Warn("create ballast file", "err", err)
				keep = false // the next try would fail too
			}
		}
	}
}

// logger passes Badger's messages on to slog. Badger's info is our debug.
type logger struct{}

func (logger) Errorf(f string, a ...any)   { slog.Error("badger", "err", fmt.Sprintf(f, a...)) }
func (logger) Warningf(f string, a ...any) { slog.Warn("badger", "err", fmt.Sprintf(f, a...)) }
func (logger) Infof(f string, a ...any)    { slog.Debug("badger", "message", fmt.Sprintf(f, a...)) }
func (logger) Debugf(string, ...any)       {}
