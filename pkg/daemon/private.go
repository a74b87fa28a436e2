package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// checkSocket refuses a socket whose folder other users can write to. Any user can create a folder below /tmp, and would read
// the requests that commands send to a socket there.
func checkSocket(p Paths) error {
	err := checkPrivate(filepath.Dir(p.Socket))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// checkPrivate refuses a folder that other users can write to.
func checkPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	const byOthers = 0o022
	st, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode()&byOthers != 0 || !ok || int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not a folder that belongs to this user alone", dir)
	}
	return nil
}
