package autostart

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The record of a failed up is a file with the error. As long as it exists, no command starts the cluster, which would start
// with other settings than the ones that the user requested. An up that succeeds and down --purge remove it.
//
// The record of a cluster that exists is in its data directory. A first up that fails leaves no such directory: its record is in
// UserDir, and lasts until the machine boots or newestFailedUps later ones are there. UserDir depends on the environment, and may be
// another one in the user's other sessions. The functions below therefore look in all directories that it can be.

// FailedUpFile is the file in a cluster's data directory that records a failed up.
const FailedUpFile = "failed-up"

const failedUpPrefix = "failed-up-"

// newestFailedUps is the number of records that a directory keeps. Without a limit they pile up: the record of a cluster whose home is gone,
// as in tests, is removed by nothing else.
const newestFailedUps = 20

// FailedUp returns the error of the last up of the cluster called name, if that failed. home is the directory of all clusters.
func FailedUp(home, name string) (why string, failed bool) {
	if clusterExists(home, name) {
		return readFailedUp(failedUpOfCluster(home, name)) // a record elsewhere is older than the cluster
	}
	for _, dir := range userDirs() {
		if why, failed = readFailedUp(failedUpIn(dir, home, name)); failed {
			return why, true
		}
	}
	return "", false
}

// readFailedUp returns the text of a record. A file of another user is none: any user can create a directory in the directory for
// temporary files.
func readFailedUp(path string) (why string, ok bool) {
	info, err := os.Lstat(path)
	if err != nil || !isOwn(info) {
		return "", false
	}
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err == nil
}

// RecordFailedUp records that the last up of the cluster called name failed with failure.
func RecordFailedUp(home, name string, failure error) error {
	text := []byte(failure.Error() + "\n")
	if clusterExists(home, name) {
		path := failedUpOfCluster(home, name)
		_ = os.Remove(path) // a file of root cannot be overwritten: sudo -E writes into the user's home
		return os.WriteFile(path, text, 0o600)
	}
	dir := UserDir()
	const attempts = 1000 // another process may remove the directory while it is empty
	var err error
	for range attempts {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			err = CheckPrivate(dir)
		}
		if err == nil {
			err = os.WriteFile(failedUpIn(dir, home, name), text, 0o600)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			dropOldFailedUps(dir)
			return err
		}
	}
	return err
}

// dropOldFailedUps removes the oldest records in dir above newestFailedUps. A failure is no error: the next call tries again.
func dropOldFailedUps(dir string) {
	entries, _ := os.ReadDir(dir)
	var records []os.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), failedUpPrefix) {
			records = append(records, info)
		}
	}
	slices.SortFunc(records, func(a, b os.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, old := range records[min(newestFailedUps, len(records)):] {
		_ = os.Remove(dir + "/" + old.Name())
	}
}

// RemoveFailedUp removes the record of RecordFailedUp. A file that FailedUp would ignore counts as none. Idempotent.
func RemoveFailedUp(home, name string) error {
	err := removeFailedUp(failedUpOfCluster(home, name))
	for _, dir := range userDirs() {
		path := failedUpIn(dir, home, name)
		if _, found := readFailedUp(path); found {
			err = errors.Join(err, removeFailedUp(path))
			_ = os.Remove(dir) // fails if another cluster uses it
		}
	}
	return err
}

func removeFailedUp(path string) error {
	err := os.Remove(path)
	if _, found := readFailedUp(path); !found {
		return nil
	}
	return err
}

func failedUpOfCluster(home, name string) string { return home + "/" + name + "/" + FailedUpFile }

// failedUpIn returns the path of the record in dir, which may have records of clusters of several homes.
func failedUpIn(dir, home, name string) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(home)) // never fails
	return fmt.Sprintf("%s/%s%016x-%s", dir, failedUpPrefix, hash.Sum64(), name)
}

// userDirs returns the directories that UserDir returns in the sessions of this user, first the one of this session.
func userDirs() []string {
	all := []string{UserDir()}
	for _, dir := range []string{"/run/user/" + strconv.Itoa(os.Getuid()) + "/minikctl", userDirIn(os.TempDir()), userDirIn("/tmp")} {
		if !slices.Contains(all, dir) {
			all = append(all, dir)
		}
	}
	return all
}
