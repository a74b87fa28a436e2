package runtimetest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// alive reports whether a process runs. A zombie does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	b, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	if err != nil {
		return !os.IsNotExist(err) || !hasProc()
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func hasProc() bool {
	_, err := os.Stat("/proc/self/stat")
	return err == nil
}
