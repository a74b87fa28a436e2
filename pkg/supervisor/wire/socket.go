package wire

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
)

const (
	maxPath = 100 // of a socket: fits into a socket address on every system
	backlog = 128
)

// Dial connects to the unix socket at path.
func Dial(path string) (*Conn, error) {
	fd, err := socket()
	if err != nil {
		return nil, err
	}
	err = short(path, func(path string) error {
		return os.NewSyscallError("connect", retry(func() error {
			return syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
		}))
	})
	if err != nil {
		syscall.Close(fd)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return newConn(fd)
}

func socket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	syscall.CloseOnExec(fd)
	return fd, nil
}

func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Listener accepts connections.
type Listener struct{ conn *Conn }

// Listen listens at path, and replaces a socket file that exists there. The caller ensures that no process listens on it.
func Listen(path string) (*Listener, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	fd, err := socket()
	if err != nil {
		return nil, err
	}
	err = short(path, func(path string) error {
		return os.NewSyscallError("bind", syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	})
	if err == nil {
		err = os.NewSyscallError("listen", syscall.Listen(fd, backlog))
	}
	if err != nil {
		syscall.Close(fd)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	conn, err := newConn(fd)
	if err != nil {
		return nil, err
	}
	return &Listener{conn}, nil
}

// FileListener returns a Listener over the listening socket f, and closes f.
func FileListener(f *os.File) (*Listener, error) {
	conn, err := FileConn(f)
	if err != nil {
		return nil, err
	}
	return &Listener{conn}, nil
}

// File returns a duplicate of the listening socket for a child to inherit. The caller closes it.
func (l *Listener) File() (*os.File, error) {
	fd := -1
	err := control(l.conn.file, func(n int) (err error) {
		fd, err = dup(n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "listener"), nil
}

// Accept returns the next connection. After Close it is os.ErrClosed.
func (l *Listener) Accept() (*Conn, error) {
	fd := -1
	var failed error
	err := l.conn.raw.Read(func(n uintptr) bool {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
		failed = retry(func() (err error) {
			fd, _, err = syscall.Accept(int(n))
			return err
		})
		if failed == nil {
			syscall.CloseOnExec(fd)
		}
		return !errors.Is(failed, syscall.EAGAIN)
	})
	if err != nil {
		return nil, os.ErrClosed // the only cause
	}
	if failed != nil {
		return nil, os.NewSyscallError("accept", failed)
	}
	return newConn(fd)
}

// Close ends Accept. The socket's file stays.
func (l *Listener) Close() error { return l.conn.Close() }

// short calls f with a name for path that fits into a socket address.
func short(path string, f func(string) error) error {
	if len(path) <= maxPath {
		return f(path)
	}
	if runtime.GOOS != "linux" {
		return fmt.Errorf("longer than the %d bytes that a socket's path may have", maxPath)
	}
	slash := strings.LastIndexByte(path, '/')
	dir, err := os.Open(path[:slash+1])
	if err != nil {
		return err
	}
	defer dir.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), path[slash+1:]))
}
