package launch

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_X86_64
