package early

import (
	"os"
	"strconv"
	"syscall"
)

// KeepDescriptors marks the descriptors that this process was started with, except the standard streams, as closed on exec.
// Call it before the start of a process that outlives this one: otherwise that process would hold a lock or a pipe of the
// user's shell as long as pods run.
func KeepDescriptors() {
	const first = 3
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // the descriptors are unknown here
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
}
