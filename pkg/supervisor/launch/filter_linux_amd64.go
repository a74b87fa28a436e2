package launch

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_X86_64

// x32 is the bit in the numbers of calls by which the kernel recognizes the x32 ABI.
const x32 = 1 << 30

// otherABIs are x32 and that of i386.
var otherABIs = []abi{
	{arch, x32 | unix.SYS_SETRLIMIT, x32 | unix.SYS_PRLIMIT64, x32 | unix.SYS_SETSID},
	{unix.AUDIT_ARCH_I386, 75, 340, 66},
}
