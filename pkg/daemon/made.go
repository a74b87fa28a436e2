package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/minikctl/minikctl/pkg/autostart"
	"github.com/minikctl/minikctl/pkg/filelock"
)

// createdListPath is the list of the directories and kubeconfig files that minikctl has created, one path a line. purge removes only
// these, and only if they are empty. Home is locked while the list and its directories change.
func createdListPath() string { return filepath.Join(Home(), ".made") }

// makeDir creates dir with its parents and records the ones that it creates.
func makeDir(dir string) error {
	if exists(dir) {
		return nil
	}
	return recordMade(func() ([]string, error) { return makeMissing(dir) })
}

// makeMissing creates dir with its parents and returns the ones that were missing.
func makeMissing(dir string) ([]string, error) {
	var missing []string
	for d := dir; !exists(d); d = filepath.Dir(d) {
		missing = append(missing, d)
	}
	slices.Reverse(missing)
	return missing, os.MkdirAll(dir, 0o700)
}

// recordMade calls create and adds the paths that it has created to the list. It creates Home, which is in the list then, too.
func recordMade(create func() ([]string, error)) (err error) {
	var made []string
	var held *os.File
	for held == nil {
		missing, err := makeMissing(Home())
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		made = append(made, missing...)
		if held, err = filelock.Wait(Home(), os.O_RDONLY); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	defer held.Close()
	more, err := create()
	if made = append(made, more...); len(made) == 0 {
		return err
	}
	f, openErr := os.OpenFile(createdListPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	_, writeErr := f.WriteString(strings.Join(made, "\n") + "\n")
	return errors.Join(err, writeErr, f.Close())
}

// removeMade removes what minikctl has created and what is empty now, last created first, and Home with the list itself
// when no cluster is left.
func removeMade() error {
	held, err := filelock.Wait(Home(), os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	b, err := os.ReadFile(createdListPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var left []string
	for _, path := range slices.Backward(strings.Split(strings.TrimSpace(string(b)), "\n")) {
		if path != Home() {
			removeEmpty(path)
		}
		if exists(path) && !slices.Contains(left, path) {
			left = append(left, path)
		}
	}
	slices.Reverse(left)
	entries, err := os.ReadDir(Home())
	if err != nil {
		return err
	}
	if len(entries) == 1 { // only the list: no cluster is left. Directories of the list with files of others stay
		if err := os.Remove(createdListPath()); err != nil || !slices.Contains(left, Home()) {
			return err
		}
		return os.Remove(Home())
	}
	return os.WriteFile(createdListPath(), []byte(strings.Join(left, "\n")+"\n"), 0o600)
}

// removeEmpty removes an empty directory or a kubeconfig without entries. Everything else stays.
func removeEmpty(path string) {
	info, err := os.Lstat(path)
	if err != nil {
		return
	}
	if !info.IsDir() {
		c, err := clientcmd.LoadFromFile(path)
		if err != nil || len(c.Clusters)+len(c.AuthInfos)+len(c.Contexts)+len(c.Extensions)+len(c.Preferences.Extensions) > 0 {
			return
		}
	}
	_ = os.Remove(path) // fails for a directory with something in it
}

// exists reports whether path names a file, a directory or a link.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// RecordFailedUp records that the last up of the cluster called name failed with err: until an up succeeds, no other command
// starts the cluster (see package autostart).
func RecordFailedUp(name string, err error) error {
	if CheckName(name) != nil {
		return nil // the name is invalid: no command starts such a cluster
	}
	return autostart.RecordFailedUp(Home(), name, err)
}
