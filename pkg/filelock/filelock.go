// Package filelock locks files and directories between processes. A lock lasts until its file is closed or the process ends.
//
// It is used before other packages initialise: it imports nothing that pkg/early may not import.
package filelock

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ErrHeld means that another process holds the lock, or looks for a moment whether one does (see Held).
var ErrHeld = errors.New("the lock is held by another process")

// Try opens the file at path with these flags and locks it. The error is ErrHeld if it is locked, and fs.ErrNotExist if the file is missing or was
// removed meanwhile.
func Try(path string, flags int) (*os.File, error) {
	return lock(path, flags, syscall.LOCK_EX|syscall.LOCK_NB)
}

// Wait is Try, and waits while another process holds the lock.
func Wait(path string, flags int) (*os.File, error) { return lock(path, flags, syscall.LOCK_EX) }

func lock(path string, flags, how int) (*os.File, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	switch err = syscall.Flock(int(f.Fd()), how); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		err = ErrHeld
	case err != nil:
		err = &fs.PathError{Op: "lock", Path: path, Err: err}
	case !InPlace(f):
		err = &fs.PathError{Op: "lock", Path: path, Err: fs.ErrNotExist}
	default:
		return f, nil
	}
	f.Close()
	return nil, err
}

// Held reports whether a process holds the lock of the file at path. It takes a shared lock for a moment, which others that look do not
// take for one that is held.
func Held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// InPlace reports whether the path of an open file still leads to it. It is false only if that is certain.
func InPlace(f *os.File) bool {
	held, err := f.Stat()
	if err != nil {
		return true
	}
	now, err := os.Stat(f.Name())
	return err == nil && os.SameFile(held, now) || err != nil && !errors.Is(err, fs.ErrNotExist)
}
