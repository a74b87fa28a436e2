package autostart

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

var errUp = errors.New("no such part")

// session gives the test the environment of a session of the user; "" is a variable that is not set.
func session(t *testing.T, runtimeDir, temp string) {
	t.Helper()
	t.Setenv("XDG_RUNTIME_DIR", runtimeDir)
	t.Setenv("TMPDIR", temp)
}

func wantFailedUp(t *testing.T, home string, want bool) {
	t.Helper()
	if why, failed := FailedUp(home, "dev"); failed != want || want && why != errUp.Error() {
		t.Errorf("got %q, %v; want %v", why, failed, want)
	}
}

func record(t *testing.T, home string) {
	t.Helper()
	if err := RecordFailedUp(home, "dev", errUp); err != nil {
		t.Fatal(err)
	}
	wantFailedUp(t, home, true)
}

func remove(t *testing.T, home string) {
	t.Helper()
	if err := RemoveFailedUp(home, "dev"); err != nil {
		t.Error(err)
	}
	wantFailedUp(t, home, false)
}

// TestFailedUpInOtherSessions checks that the record of a failed up is found and removed in sessions with another XDG_RUNTIME_DIR
// and TMPDIR.
func TestFailedUpInOtherSessions(t *testing.T) {
	desktop, temp, otherTemp := t.TempDir(), t.TempDir(), t.TempDir()
	t.Run("cluster exists", func(t *testing.T) {
		home := withCluster(t, t.TempDir())
		session(t, desktop, temp)
		record(t, home)
		session(t, "", otherTemp)
		wantFailedUp(t, home, true)
		remove(t, home)
		session(t, desktop, temp)
		wantFailedUp(t, home, false)
	})
	t.Run("no cluster", func(t *testing.T) {
		home := filepath.Join(t.TempDir(), "home")
		session(t, "", temp)
		record(t, home)
		session(t, desktop, temp)
		wantFailedUp(t, home, true)
		remove(t, home)
		session(t, "", temp)
		wantFailedUp(t, home, false)
		if _, err := os.Lstat(home); err == nil {
			t.Error("the record creates home")
		}
	})
	t.Run("removed where it is not found", func(t *testing.T) {
		home := filepath.Join(t.TempDir(), "home")
		session(t, desktop, temp)
		record(t, home)
		session(t, "", otherTemp)
		withCluster(t, home) // up succeeds
		remove(t, home)
		session(t, desktop, temp)
		wantFailedUp(t, home, false)
	})
}

// withCluster creates a cluster in home and returns home.
func withCluster(t *testing.T, home string) string {
	t.Helper()
	data := filepath.Join(home, "dev")
	if err := os.MkdirAll(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, LockFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return home
}

// ofOtherUser returns a directory of another user.
func ofOtherUser(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		return "/"
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 1, 1); err != nil {
		t.Skipf("root may not give a directory to another user: %v", err)
	}
	return dir
}

// TestFailedUpBesideFilesOfOthers checks the record of a failed up where other users have created the directories for it.
func TestFailedUpBesideFilesOfOthers(t *testing.T) {
	t.Run("runtime directory", func(t *testing.T) {
		home, temp := filepath.Join(t.TempDir(), "home"), t.TempDir()
		session(t, ofOtherUser(t), temp)
		if got, want := UserDir(), userDirIn(temp); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		record(t, home)
		remove(t, home)
	})
	t.Run("directory in the runtime directory", func(t *testing.T) {
		runtimeDir, temp := t.TempDir(), t.TempDir()
		session(t, runtimeDir, temp)
		if got, want := UserDir(), filepath.Join(runtimeDir, "minikctl"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if err := os.Symlink(ofOtherUser(t), filepath.Join(runtimeDir, "minikctl")); err != nil {
			t.Fatal(err)
		}
		if got, want := UserDir(), userDirIn(temp); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	for name, create := range map[string]func(path string) error{
		"file in place of the directory": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"directory without access":       func(path string) error { return os.Mkdir(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			home, temp := filepath.Join(t.TempDir(), "home"), t.TempDir()
			session(t, "", temp)
			if err := create(filepath.Join(temp, "minikctl-"+strconv.Itoa(os.Getuid()))); err != nil {
				t.Fatal(err)
			}
			remove(t, home)
		})
	}
}

// TestFailedUpsAreBounded checks that a new record drops the oldest ones, and no other files.
func TestFailedUpsAreBounded(t *testing.T) {
	session(t, "", t.TempDir())
	homes := t.TempDir()
	home := func(i int) string { return filepath.Join(homes, strconv.Itoa(i)) }
	record(t, home(0))
	other := filepath.Join(UserDir(), "lock")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const records = newestFailedUps + 3
	for i := range records {
		record(t, home(i))
		age := time.Duration(records-i) * time.Minute
		old := time.Now().Add(-age) //nolint:forbidigo // the times of files
		for _, path := range []string{failedUpIn(UserDir(), home(i), "dev"), other} {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range records {
		wantFailedUp(t, home(i), i >= records-newestFailedUps)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}
