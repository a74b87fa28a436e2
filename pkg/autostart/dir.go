package autostart

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// UserDir returns the directory of the user's files that need not survive a reboot: $XDG_RUNTIME_DIR/minikctl, or else
// minikctl-UID in the directory for temporary files. It ignores an $XDG_RUNTIME_DIR of another user, which su and sudo -E pass on,
// and one in which another user has created the directory.
func UserDir() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" && isOwnDir(dir) {
		directory := dir + "/minikctl"
		if _, err := os.Lstat(directory); errors.Is(err, fs.ErrNotExist) || isOwnDir(directory) {
			return directory
		}
	}
	return userDirIn(os.TempDir())
}

// userDirIn returns the user's directory in a directory for temporary files.
func userDirIn(temp string) string {
	return strings.TrimSuffix(temp, "/") + "/minikctl-" + strconv.Itoa(os.Getuid())
}

// CheckPrivate refuses a directory that belongs to another user or that other users can write to: they could place links in it.
func CheckPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	const byOthers = 0o022
	if !info.IsDir() || info.Mode()&byOthers != 0 || !isOwn(info) {
		return fmt.Errorf("%s is not a directory that belongs to this user alone", dir)
	}
	return nil
}

func isOwnDir(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir() && isOwn(info)
}

// isOwn reports whether the file with this info belongs to the user.
func isOwn(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
