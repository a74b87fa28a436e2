package proxy

import "golang.org/x/sys/unix"

func setLateSourcePort(fd int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
}
