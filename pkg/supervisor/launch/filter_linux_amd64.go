package launch

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_X86_64

// x32 is the bit in the numbers of calls by which the kernel recognizes the x32 ABI.
const x32 = 1 << 30

// otherABIs are x32 and that of i386.
var otherABIs = []abi{
	{arch, x32 | unix.SYS_SETRLIMIT, x32 | unix.SYS_PRLIMIT64, x32 | unix.SYS_SETSID, []uint32{
		x32 | unix.SYS_CONNECT, x32 | unix.SYS_SENDTO, x32 | 518, x32 | 538, x32 | unix.SYS_IO_URING_SETUP, // 518 and 538: sendmsg and sendmmsg
	}},
	{unix.AUDIT_ARCH_I386, 75, 340, 66, []uint32{102, 362, 369, 370, 345, unix.SYS_IO_URING_SETUP}}, // socketcall, connect, sendto, sendmsg, sendmmsg
}
