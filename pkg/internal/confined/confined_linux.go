// Package confined executes programs for tests as on a machine that grants no namespaces.
package confined

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// namespaces are the flags of clone that create namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// Exec makes unshare, setns, mount, the calls more, and clone with the flags of namespaces fail with EPERM, and executes the program args[0]
// in place of this process. It returns only if that fails.
func Exec(args []string, more ...uint32) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	// unless skips the next instruction unless the loaded value has the property.
	unless := func(op uint16, k uint32, skipped uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jf: skipped}
	}
	refused := ret(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	filter := []unix.SockFilter{load(0)}
	for _, call := range append([]uint32{unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT}, more...) {
		filter = append(filter, unless(unix.BPF_JEQ, call, 1), refused)
	}
	filter = append(filter,
		unless(unix.BPF_JEQ, unix.SYS_CLONE3, 1),
		ret(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)), // a filter can't see its flags: programs fall back to clone
		unless(unix.BPF_JEQ, unix.SYS_CLONE, 3),
		load(16),
		unless(unix.BPF_JSET, namespaces, 1),
		refused,
		ret(unix.SECCOMP_RET_ALLOW))
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return errno
	}
	if err := unix.Unshare(unix.CLONE_NEWUSER); err != unix.EPERM {
		return fmt.Errorf("unshare is not refused: %w", err)
	}
	return unix.Exec(args[0], args, os.Environ())
}
