package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	db "github.com/dgraph-io/badger/v4"
	"golang.org/x/sys/unix"
)

// names makes the names of Badger's logs durable before a write in them is acknowledged. Badger syncs what it writes into a log, but
// not the directory in which it has created the log: a loss of power could take the log with all that was synced in it.
type names struct {
	dir      *os.File
	next     []nextLog
	memTable int64 // the size at which Badger begins another log
}

// nextLog is the log of a kind that Badger creates next.
type nextLog struct {
	suffix string
	digits int
	number int
}

func (n nextLog) name() string { return fmt.Sprintf("%0*d%s", n.digits, n.number, n.suffix) }

// openNames makes the names in the directory of an open database durable.
func openNames(dir string, memTable int64) (*names, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	n := &names{dir: f, next: []nextLog{{".mem", 5, 0}, {".vlog", 6, 0}}, memTable: memTable}
	if err := n.all(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return n, nil
}

// all makes all names durable, and finds the numbers of the next logs.
func (n *names) all() error {
	entries, err := os.ReadDir(n.dir.Name())
	if err != nil {
		return err
	}
	for _, e := range entries {
		for i := range n.next {
			log := &n.next[i]
			number, err := strconv.Atoi(strings.TrimSuffix(e.Name(), log.suffix))
			if err == nil && filepath.Ext(e.Name()) == log.suffix {
				log.number = max(log.number, number+1)
			}
		}
	}
	return n.dir.Sync()
}

// sync makes the names of the logs durable that a commit with so many bytes has created.
func (n *names) sync(written int64) error {
	if written > n.memTable/4 {
		return n.all() // the commit may have filled more than one log, of which the first may be gone already
	}
	created := false
	for i := range n.next {
		log := &n.next[i]
		for {
			_, err := os.Lstat(filepath.Join(n.dir.Name(), log.name()))
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			if err != nil {
				return err
			}
			log.number++
			created = true
		}
	}
	if !created {
		return nil
	}
	return n.dir.Sync()
}

// persist makes durable what a killed process may have changed and not synced: the names, and MANIFEST. Badger deletes the tables that
// MANIFEST does not list, and those that an older MANIFEST lists must not be gone after a loss of power.
func persist(dir string) error {
	err := syncPath(filepath.Join(dir, db.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) { // killed before it was created
		err = nil
	}
	return errors.Join(err, syncPath(dir))
}

// makeDirs creates the directories of a store and of its database, and makes their names durable, and those of the directories above
// them, which may be as new.
func makeDirs(dir string) error {
	if err := os.MkdirAll(database(dir), 0o700); err != nil {
		return err
	}
	return errors.Join(syncPath(database(dir)), syncPath(dir), syncParents(dir))
}

// syncParents makes the names of dir and of the directories above it durable. It stops at another file system, whose mount point is
// older than the store, and at a directory that this process may not read. Above the store it ignores read-only directories, and those of
// file systems that do not sync directories, such as autofs.
func syncParents(dir string) error {
	device, err := deviceOf(dir)
	if err != nil {
		return err
	}
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		at, err := deviceOf(parent)
		if err == nil {
			if at != device {
				return nil
			}
			err = syncPath(parent)
		}
		switch {
		case errors.Is(err, fs.ErrPermission):
			return nil
		case errors.Is(err, unix.EINVAL), errors.Is(err, errors.ErrUnsupported), errors.Is(err, unix.EROFS):
		case err != nil:
			return err
		}
	}
	return nil
}

// deviceOf returns the number of the file system that a directory is in.
func deviceOf(dir string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return 0, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	return uint64(st.Dev), nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
