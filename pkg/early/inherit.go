package early

import (
	"os"
	"strconv"
	"syscall"
)

// KeepDescriptors keeps the descriptors that this process was started with, but for the standard streams, from all that
// it starts. It comes before something is started that outlives its starter: a lock or a pipe of the shell that a command
// was typed into would be held as long as pods run.
func KeepDescriptors() {
	const first = 3
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return // they can't be known: what is inherited stays so
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd >= first {
			syscall.CloseOnExec(fd)
		}
	}
}
