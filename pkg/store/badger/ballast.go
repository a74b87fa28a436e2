package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
)

// ballast is a file that takes disk space and holds nothing. On a disk that others have filled, Badger cannot be opened, and
// nothing deleted. Letting go of the ballast makes the room for that, when it is asked for and not before: whoever fills the
// disk would only take it too.
type ballast struct {
	dir, path string
	reserve   uint64
}

// size is how much the file takes, and last how little may be free for an open and for deletions.
func (b ballast) size() uint64 { return b.reserve / 2 }
func (b ballast) last() uint64 { return b.reserve / 4 }

// keep takes the ballast when there is plenty of space.
func (b ballast) keep() error {
	info, err := os.Stat(b.path)
	switch {
	case err == nil && uint64(info.Size()) == b.size():
		return nil
	case err == nil: // it was never finished
		err = os.Remove(b.path)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil || checkSpace(b.dir, 2*b.reserve+b.size()) != nil {
		return err
	}
	return b.take()
}

// way answers ErrNoSpace when even an open or a deletion, which are ways out, have too little space. They may have that of
// the ballast.
func (b ballast) way() error {
	err := checkSpace(b.dir, b.last())
	if err == nil {
		return nil
	}
	switch e := os.Remove(b.path); {
	case errors.Is(e, fs.ErrNotExist):
		return err
	case e != nil:
		return e
	}
	slog.Warn("the disk is full: the space that was kept for this is let go", "path", b.path)
	return checkSpace(b.dir, b.last())
}

// take makes the file.
func (b ballast) take() error {
	f, err := os.OpenFile(b.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = errors.Join(allocate(f, int64(b.size())), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("take %d bytes in reserve: %w", b.size(), err), os.Remove(b.path))
	}
	return nil
}
