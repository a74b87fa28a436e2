package clustertest

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// checkLeft fails the test for each process of a directory that does not end by itself. Supervisors and their keepers end shortly after the
// command that has taken their cluster down.
func checkLeft(t *testing.T, directory string) {
	t.Helper()
	var left []string
	within(20*time.Second, func() bool {
		left = processesOf(directory)
		return len(left) == 0
	})
	for _, p := range left {
		t.Errorf("process left behind: %s", p)
	}
}

// within reports whether a condition holds within a limit. It polls: processes that are not the test's children announce nothing to it. The
// pauses grow, since most conditions start a process, which takes the processor from the other tests. The limit only ends a test that fails.
func within(limit time.Duration, holds func() bool) bool {
	deadline := time.Now().Add(limit)
	for pause := 20 * time.Millisecond; ; pause = min(pause*3/2, 500*time.Millisecond) {
		if holds() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause) // between two polls, within the deadline
	}
}

// processesOf returns the other processes that have a path of a directory in their arguments or environment, or as an open file, working
// directory or root: as "PID COMMAND". Not all of a cluster have its home directory in their environment. There are none without /proc.
func processesOf(directory string) []string {
	var out []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if filepath.Base(dir) != strconv.Itoa(os.Getpid()) && uses(dir, directory) {
			cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			out = append(out, filepath.Base(dir)+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return out
}

// uses reports whether the process with the directory proc in /proc uses a directory. A process that has ended does not.
func uses(proc, directory string) bool {
	for _, name := range []string{"cmdline", "environ"} {
		if text, err := os.ReadFile(filepath.Join(proc, name)); err == nil && names(text, directory) {
			return true
		}
	}
	links, _ := filepath.Glob(filepath.Join(proc, "fd", "*"))
	for _, link := range append(links, filepath.Join(proc, "cwd"), filepath.Join(proc, "root")) {
		if target, err := os.Readlink(link); err == nil && names([]byte(target), directory) {
			return true
		}
	}
	return false
}

// names reports whether a text has the path of a directory or of a file below it.
func names(text []byte, directory string) bool {
	for {
		at := bytes.Index(text, []byte(directory))
		if at < 0 {
			return false
		}
		text = text[at+len(directory):]
		if len(text) == 0 || strings.IndexByte("/\x00\n ", text[0]) >= 0 {
			return true
		}
	}
}
