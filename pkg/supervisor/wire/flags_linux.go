package wire

import "syscall"

const (
	noSignal = syscall.MSG_NOSIGNAL
	cloexec  = syscall.MSG_CMSG_CLOEXEC
)
