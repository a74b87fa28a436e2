package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/minikctl/minikctl/pkg/autostart"
)

// createdListPath is the list of the folders and kubeconfig files that minikctl has created, one path a line. purge removes only
// these, and only if they are empty.
func createdListPath() string { return filepath.Join(Home(), ".made") }

// makeFolder creates dir with its parents and records the ones that it creates.
func makeFolder(dir string) error {
	var missing []string
	for d := dir; !exists(d); d = filepath.Dir(d) {
		missing = append(missing, d)
	}
	if len(missing) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return recordMade(missing...)
}

func recordMade(paths ...string) error {
	if home := Home(); !exists(home) {
		if err := makeFolder(home); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(createdListPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	slices.Reverse(paths)
	_, err = f.WriteString(strings.Join(paths, "\n") + "\n")
	return errors.Join(err, f.Close())
}

// removeMade removes what minikctl has created and what is empty now, last created first, and Home with the list itself
// when nothing else is in it.
func removeMade() error {
	b, err := os.ReadFile(createdListPath())
	if errors.Is(err, os.ErrNotExist) {
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
	if homeEmpty := len(entries) == 1; homeEmpty && (len(left) == 0 || slices.Equal(left, []string{Home()})) {
		if err := os.Remove(createdListPath()); err != nil || len(left) == 0 {
			return err
		}
		return os.Remove(Home())
	}
	return os.WriteFile(createdListPath(), []byte(strings.Join(left, "\n")+"\n"), 0o600)
}

// removeEmpty removes an empty folder or a kubeconfig without entries. Everything else stays.
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
	_ = os.Remove(path) // fails for a folder with something in it
}

// exists reports whether path names a file, a folder or a link.
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
