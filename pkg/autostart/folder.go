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

// UserFolder returns the folder of the user's files that need not survive a reboot: $XDG_RUNTIME_DIR/minikctl, or else
// minikctl-UID in the folder for temporary files. It ignores an $XDG_RUNTIME_DIR of another user, which su and sudo -E pass on,
// and one in which another user has created the folder.
func UserFolder() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" && isOwnFolder(dir) {
		folder := dir + "/minikctl"
		if _, err := os.Lstat(folder); errors.Is(err, fs.ErrNotExist) || isOwnFolder(folder) {
			return folder
		}
	}
	return userFolderIn(os.TempDir())
}

// userFolderIn returns the user's folder in a folder for temporary files.
func userFolderIn(temp string) string {
	return strings.TrimSuffix(temp, "/") + "/minikctl-" + strconv.Itoa(os.Getuid())
}

// CheckPrivate refuses a folder that belongs to another user or that other users can write to: they could place links in it.
func CheckPrivate(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	const byOthers = 0o022
	if !info.IsDir() || info.Mode()&byOthers != 0 || !isOwn(info) {
		return fmt.Errorf("%s is not a folder that belongs to this user alone", dir)
	}
	return nil
}

func isOwnFolder(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir() && isOwn(info)
}

// isOwn reports whether the file with this info belongs to the user.
func isOwn(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Getuid()
}
