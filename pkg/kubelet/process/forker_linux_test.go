package process_test

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The functions below run in processes with a single thread and without Go's scheduler: they make system calls only.

// startForker starts a process that runs forker.
//
//go:nosplit
//go:norace
func startForker(own, pipe uintptr, deadline int64) error {
	pid, errno := fork()
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		forker(own, pipe, deadline)
	}
	return nil
}

const (
	manyForks = 40          // more than a supervisor records sessions
	forkPause = 1000 * 1000 // nanoseconds
)

// forker forks all the time. Each process makes the system call own, forks once and ends. It forks only after the process
// before it has been reaped: at any time a forker has two processes, zombies included, even if nothing reaps or kills them.
//
// It writes f to the pipe after manyForks. It ends when nothing has the other end of the pipe open, also because the test has
// died, and at the deadline, in seconds of the monotonic clock.
//
//go:nosplit
//go:norace
func forker(own, pipe uintptr, deadline int64) {
	many := byte('f')
	last := uintptr(0)
	for i := 0; ; i++ {
		_, _, _ = unix.RawSyscall(own, 0, 0, 0)
		if i == manyForks {
			_, _, _ = unix.RawSyscall(unix.SYS_WRITE, pipe, uintptr(unsafe.Pointer(&many)), 1)
		}
		for waiting := true; waiting; {
			var now unix.Timespec
			pause, end := unix.Timespec{Nsec: forkPause}, unix.PollFd{Fd: int32(pipe)}
			closed, _, _ := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&end)), 1, uintptr(unsafe.Pointer(&pause)), 0, 0, 0)
			_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&now)), 0)
			if closed == 1 || now.Sec > deadline {
				_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			waiting = false
			if last != 0 {
				_, _, gone := unix.RawSyscall(unix.SYS_KILL, last, 0, 0)
				waiting = gone == 0
			}
		}
		self, _, _ := unix.RawSyscall(unix.SYS_GETPID, 0, 0, 0)
		if pid, errno := fork(); errno == 0 {
			if pid != 0 {
				_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			last = self
		}
	}
}

//go:nosplit
//go:norace
func fork() (uintptr, unix.Errno) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}
