package process_test

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestWithoutNamespaces runs the suite where every system call that creates or joins a namespace fails, as in many
// containers.
func TestWithoutNamespaces(t *testing.T) {
	attr := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: 12345, Gid: 12345}
	}
	rerun(t, "^(TestRuntime|TestUnhonoured|TestNestedMounts|TestMountOverFilesOfTheMachine|TestReadOnlyRoot|TestGroups|TestUserBestEffort|TestHostNamespaces)$", attr, actVariable+"=confine")
}

// TestWithoutFilters runs the suite where seccomp filters are refused as well.
func TestWithoutFilters(t *testing.T) {
	rerun(t, "^TestRuntime$", nil, actVariable+"=confine", noFilters+"=1")
}

// noFilters is the environment variable that makes actConfine refuse seccomp filters, too.
const noFilters = "MINIKCTL_PROCESSTEST_NO_FILTERS"

// namespaces are the flags of clone that create namespaces.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// actConfine installs a filter by which unshare, setns, mount, and clone with the flags of namespaces fail with EPERM. It
// then executes this test program again.
func actConfine(args []string) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	jump := func(op uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	prog := []unix.SockFilter{
		load(0),
		jump(unix.BPF_JEQ, unix.SYS_UNSHARE, 7, 0),
		jump(unix.BPF_JEQ, unix.SYS_SETNS, 6, 0),
		jump(unix.BPF_JEQ, unix.SYS_MOUNT, 5, 0),
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 5, 0),
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 2),
		load(16),
		jump(unix.BPF_JSET, namespaces, 1, 0),
		ret(unix.SECCOMP_RET_ALLOW),
		ret(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
		ret(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)), // the filter can't see clone3's flags: programs fall back to clone
	}
	if os.Getenv(noFilters) != "" {
		prog[3].K = unix.SYS_SECCOMP // instead of mount
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return errno
	}
	if err := unix.Unshare(unix.CLONE_NEWUSER); err != unix.EPERM {
		return fmt.Errorf("unshare is not refused: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Unsetenv(actVariable); err != nil {
		return err
	}
	return unix.Exec(self, append([]string{self}, args...), os.Environ())
}
