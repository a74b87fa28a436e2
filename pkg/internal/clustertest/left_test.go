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

// checkLeft fails the test for each process of a folder that does not end by itself. Supervisors and their keepers end shortly after the
// command that has taken their cluster down.
func checkLeft(t *testing.T, folder string) {
	t.Helper()
	var left []string
	within(20*time.Second, func() bool {
		left = processesOf(folder)
		return len(left) == 0
	})
	for _, p := range left {
		t.Errorf("process left behind: %s", p)
	}
}

// within reports whether a condition holds within a limit. It polls: processes that are not the test's children announce nothing to it. The
// limit only ends a test that fails.
func within(limit time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		if holds() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// processesOf returns the other processes that have a path of a folder in their arguments or environment, or as an open file, working
// directory or root: as "PID COMMAND". Not all of a cluster have its home folder in their environment. There are none without /proc.
func processesOf(folder string) []string {
	var out []string
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if filepath.Base(dir) != strconv.Itoa(os.Getpid()) && uses(dir, folder) {
			cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
			out = append(out, filepath.Base(dir)+" "+strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return out
}

// uses reports whether the process with the folder proc in /proc uses a folder. A process that has ended does not.
func uses(proc, folder string) bool {
	for _, name := range []string{"cmdline", "environ"} {
		if text, err := os.ReadFile(filepath.Join(proc, name)); err == nil && names(text, folder) {
			return true
		}
	}
	links, _ := filepath.Glob(filepath.Join(proc, "fd", "*"))
	for _, link := range append(links, filepath.Join(proc, "cwd"), filepath.Join(proc, "root")) {
		if target, err := os.Readlink(link); err == nil && names([]byte(target), folder) {
			return true
		}
	}
	return false
}

// names reports whether a text has the path of a folder or of a file below it.
func names(text []byte, folder string) bool {
	for {
		at := bytes.Index(text, []byte(folder))
		if at < 0 {
			return false
		}
		text = text[at+len(folder):]
		if len(text) == 0 || strings.IndexByte("/\x00\n ", text[0]) >= 0 {
			return true
		}
	}
}
