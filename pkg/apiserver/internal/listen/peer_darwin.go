package listen

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID returns the user of the process at the other end.
func peerUID(c *net.UnixConn) (int, error) {
	uid := -1
	err := onSocket(c, func(fd int) error {
		cred, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err
}
