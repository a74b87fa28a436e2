package launch

import "golang.org/x/sys/unix"

// profileABI refuses the calls of x32, which has the architecture of this ABI.
var profileABI = []unix.SockFilter{
	{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: x32, Jt: 0, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
}

// neverHere and capableHere are calls that only this architecture has.
var neverHere = []uint32{unix.SYS_SYSFS, unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS__SYSCTL}

var capableHere = []struct {
	capabilities []int
	calls        []uint32
}{
	{[]int{unix.CAP_SYS_RAWIO}, []uint32{unix.SYS_IOPL, unix.SYS_IOPERM}},
}
