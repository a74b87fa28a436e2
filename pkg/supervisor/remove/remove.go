// Package remove removes directories with files of containers. A container of an ordinary user can make its directories read-only, as
// programs do that protect what they have downloaded, and then os.RemoveAll fails.
package remove

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// All removes path like os.RemoveAll. It makes the directories below path writable if it has to.
func All(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	slash := strings.LastIndexByte(path, '/')
	root, openErr := os.OpenRoot(path[:slash+1] + ".")
	if openErr != nil {
		return err
	}
	defer root.Close()
	return In(root, path[slash+1:])
}

// In removes what name names in root, as All does. It changes and removes nothing outside of root.
func In(root *os.Root, name string) error {
	err := root.RemoveAll(name)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = fs.WalkDir(root.FS(), name, func(path string, d fs.DirEntry, _ error) error { // the second attempt returns what is left
		if d != nil && d.IsDir() {
			_ = root.Chmod(path, 0o700) // before its entries are read
		}
		return nil
	})
	return root.RemoveAll(name)
}
