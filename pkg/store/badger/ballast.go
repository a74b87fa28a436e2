package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
)

// ballast is a file that takes disk space and holds nothing. On a disk that other programs have filled, Badger can't be opened and
// objects can't be deleted. Removing the ballast makes room for both. It is removed only when that room is needed, since other
// programs could take the space.
type ballast struct {
	dir, path string
	reserve   uint64
}

// size is the size of the file. last is the free space that opening the store and deletions need.
func (b ballast) size() uint64 { return b.reserve / 2 }
func (b ballast) last() uint64 { return b.reserve / 4 }

// keep makes the ballast when there is plenty of space.
func (b ballast) keep() error {
	info, err := os.Stat(b.path)
	switch {
	case err == nil && uint64(info.Size()) == b.size():
		return nil
	case err == nil: // it is incomplete
		err = os.Remove(b.path)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil || checkSpace(b.dir, 2*b.reserve+b.size()) != nil {
		return err
	}
	return b.create()
}

// makeRoom makes room for opening the store or for a deletion. If there is too little space it removes the ballast, and
// if that does not suffice it returns ErrNoSpace.
func (b ballast) makeRoom() error {
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
	slog.Warn("disk is full: ballast removed", "path", b.path)
	return checkSpace(b.dir, b.last())
}

func (b ballast) create() error {
	f, err := os.OpenFile(b.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = errors.Join(allocate(f, int64(b.size())), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("reserve %d bytes: %w", b.size(), err), os.Remove(b.path))
	}
	return nil
}
