package daemon

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// exiting refers to a process also after another one has got its number.
type exiting struct{ fd *os.File } // nil if the kernel has no such references

func openProcess(pid int) exiting {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return exiting{}
	}
	return exiting{os.NewFile(uintptr(fd), "pidfd")}
}

func (p exiting) close() {
	if p.fd != nil {
		_ = p.fd.Close()
	}
}

// wait waits until the process has exited. A zombie has.
func (p exiting) wait(ctx context.Context) error {
	const interval = 50 * time.Millisecond
	for p.fd != nil {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.fd.Fd()), Events: unix.POLLIN}}, int(interval.Milliseconds()))
		if n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}
