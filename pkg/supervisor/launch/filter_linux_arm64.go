package launch

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_AARCH64

// otherABIs is that of 32-bit ARM.
var otherABIs = []abi{{unix.AUDIT_ARCH_ARM, 75, 369, 66, []uint32{283, 290, 296, 374, unix.SYS_IO_URING_SETUP}}} // connect, sendto, sendmsg, sendmmsg
