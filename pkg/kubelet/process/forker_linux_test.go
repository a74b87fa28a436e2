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
func startForker(own, pipe uintptr, stop *byte) error {
	pid, errno := fork()
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		forker(own, pipe, stop)
	}
	return nil
}

const (
	manyForks = 40          // more than a supervisor records sessions
	mostForks = 2000        // a failed test leaves no processes for ever
	forkPause = 1000 * 1000 // nanoseconds
)

// forker forks all the time. Each process makes the system call own and ends after it has forked. It writes f to the pipe
// after manyForks, and e when it ends by itself: after mostForks, or when the file stop exists.
//
//go:nosplit
//go:norace
func forker(own, pipe uintptr, stop *byte) {
	many, end := byte('f'), byte('e')
	pause := unix.Timespec{Nsec: forkPause}
	cwd := unix.AT_FDCWD
	for i := 0; ; i++ {
		_, _, _ = unix.RawSyscall(own, 0, 0, 0)
		if i == manyForks {
			_, _, _ = unix.RawSyscall(unix.SYS_WRITE, pipe, uintptr(unsafe.Pointer(&many)), 1)
		}
		_, _, missing := unix.RawSyscall(unix.SYS_FACCESSAT, uintptr(cwd), uintptr(unsafe.Pointer(stop)), 0)
		if missing == 0 || i == mostForks {
			_, _, _ = unix.RawSyscall(unix.SYS_WRITE, pipe, uintptr(unsafe.Pointer(&end)), 1)
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&pause)), 0, 0)
		if pid, errno := fork(); errno == 0 && pid != 0 {
			_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
}

//go:nosplit
//go:norace
func fork() (uintptr, unix.Errno) {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}
