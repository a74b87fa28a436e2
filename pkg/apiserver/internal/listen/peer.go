package listen

import (
	"errors"
	"net"
)

// onSocket calls f with the descriptor of c, which stays open meanwhile.
func onSocket(c *net.UnixConn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = raw.Control(func(fd uintptr) { ferr = f(int(fd)) })
	return errors.Join(err, ferr)
}
