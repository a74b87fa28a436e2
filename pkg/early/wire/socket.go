package wire

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
)

// maxPath is what fits into a socket address everywhere.
const maxPath = 100

// Dial connects to the unix socket at path.
func Dial(path string) (*Conn, error) {
	var c *net.UnixConn
	err := short(path, func(path string) (err error) {
		c, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	return NewConn(c), nil
}

// Listen listens at path, and takes the place of a socket that is there. The caller sees to it that nobody listens on it.
func Listen(path string) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	var l *net.UnixListener
	err := short(path, func(path string) (err error) {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		return err
	})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return l, nil
}

// short calls f with a name for path that fits into a socket address.
func short(path string, f func(string) error) error {
	if len(path) <= maxPath {
		return f(path)
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("%s: longer than the %d bytes that a socket's path may have", path, maxPath)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
}
