//go:build linux && (amd64 || arm64)

package supervisor

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// call is the system call that a listener is answering. It is in memory that a keeper holds: a supervisor that dies leaves
// it to the next one, which answers it. The kernel delivers each call once.
type call struct {
	notification // id is 0 while there is none

	switched uint32 // 1: the caller's socket is blocking, even if it is not now; see connectOwn
}

// newCall creates the memory of a call.
func newCall() (*os.File, error) {
	fd, err := unix.MemfdCreate("call", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "call")
	if err := unix.Ftruncate(fd, int64(unsafe.Sizeof(call{}))); err != nil {
		f.Close()
		return nil, os.NewSyscallError("ftruncate", err)
	}
	return f, nil
}

// mapCall maps the memory of a call. Without memory, the call is this process's own.
func mapCall(f *os.File) (*call, func()) {
	if f == nil {
		return &call{}, func() {}
	}
	b, err := unix.Mmap(int(descriptor(f)), 0, int(unsafe.Sizeof(call{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		logf("map the memory of a call: %v", err)
		return &call{}, func() {}
	}
	return (*call)(unsafe.Pointer(&b[0])), func() { _ = unix.Munmap(b) }
}
