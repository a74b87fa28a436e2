//go:build linux && (amd64 || arm64)

package launch

import (
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// capable lists the system calls that need capabilities: a process that has one of them may use the calls. never are refused to every
// process. With the calls of namespaces in clone, which profile adds, these are what the default profiles of container runtimes leave
// out.
var capable = []struct {
	capabilities []int
	calls        []uint32
}{
	{[]int{unix.CAP_SYS_ADMIN}, []uint32{
		unix.SYS_FANOTIFY_INIT, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSOPEN, unix.SYS_FSPICK, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_MOUNT,
		unix.SYS_MOUNT_SETATTR, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SETDOMAINNAME,
		unix.SYS_SETHOSTNAME, unix.SYS_SETNS, unix.SYS_UMOUNT2, unix.SYS_UNSHARE,
	}},
	{[]int{unix.CAP_SYS_ADMIN, unix.CAP_BPF}, []uint32{unix.SYS_BPF}},
	{[]int{unix.CAP_SYS_ADMIN, unix.CAP_PERFMON}, []uint32{unix.SYS_PERF_EVENT_OPEN}},
	{[]int{unix.CAP_SYS_ADMIN, unix.CAP_SYSLOG}, []uint32{unix.SYS_SYSLOG}},
	{[]int{unix.CAP_DAC_READ_SEARCH}, []uint32{unix.SYS_OPEN_BY_HANDLE_AT}},
	{[]int{unix.CAP_SYS_BOOT}, []uint32{unix.SYS_REBOOT}},
	{[]int{unix.CAP_SYS_CHROOT}, []uint32{unix.SYS_CHROOT}},
	{[]int{unix.CAP_SYS_MODULE}, []uint32{unix.SYS_DELETE_MODULE, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE}},
	{[]int{unix.CAP_SYS_PACCT}, []uint32{unix.SYS_ACCT}},
	{[]int{unix.CAP_SYS_NICE}, []uint32{unix.SYS_MBIND, unix.SYS_SET_MEMPOLICY, unix.SYS_GET_MEMPOLICY}},
	{[]int{unix.CAP_SYS_TIME}, []uint32{unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME}},
	{[]int{unix.CAP_SYS_TTY_CONFIG}, []uint32{unix.SYS_VHANGUP}},
}

var never = []uint32{
	unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	unix.SYS_PIVOT_ROOT, unix.SYS_USERFAULTFD, unix.SYS_MOVE_PAGES, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_NFSSERVCTL,
}

// namespaceFlags are the flags of clone that make namespaces.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID |
	unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// denyCalls refuses the calls that the default profiles of container runtimes refuse to a process with the capabilities; nil: all.
func denyCalls(capabilities *uint64) error {
	set := ^uint64(0)
	if capabilities != nil {
		set = *capabilities
	}
	prog := profile(set)
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}

// profile returns the filter program. Programs of another ABI have no calls at all: their numbers have other meanings.
func profile(capabilities uint64) []unix.SockFilter {
	refused := func(e unix.Errno) unix.SockFilter { return ret(unix.SECCOMP_RET_ERRNO | uint32(e)) }
	prog := []unix.SockFilter{load(offArch), equal(arch, 1, 0), refused(unix.ENOSYS), load(offNumber)}
	prog = append(prog, profileABI...)
	deny := func(call uint32, e unix.Errno) { prog = append(prog, equal(call, 0, 1), refused(e)) }
	for _, call := range slices.Concat(never, neverHere) {
		deny(call, unix.EPERM)
	}
	for _, c := range append(capable[:len(capable):len(capable)], capableHere...) {
		if slices.ContainsFunc(c.capabilities, func(n int) bool { return capabilities&(1<<n) != 0 }) {
			continue
		}
		for _, call := range c.calls {
			deny(call, unix.EPERM)
		}
	}
	if capabilities&(1<<unix.CAP_SYS_ADMIN) == 0 {
		deny(unix.SYS_CLONE3, unix.ENOSYS) // a filter can't see its flags: programs fall back to clone
		prog = append(prog,
			equal(unix.SYS_CLONE, 0, 3),
			load(offArg0),
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: namespaceFlags, Jt: 0, Jf: 1},
			refused(unix.EPERM))
	}
	return append(prog, ret(unix.SECCOMP_RET_ALLOW))
}
