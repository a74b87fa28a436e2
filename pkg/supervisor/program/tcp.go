package program

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// listener is a listening TCP socket. Package net initialises too late (see package early).
type listener struct {
	file *os.File
	raw  syscall.RawConn
	port int // that listen was called with
}

const (
	anyAddress = "any"
	loopback   = "loopback"
	backlog    = 1024
)

// listen listens on 127.0.0.1, or on all IPv4 and IPv6 addresses of the machine.
func listen(where string, port int) (*listener, error) {
	if where == anyAddress {
		fd, err := tcpSocket(syscall.AF_INET6)
		if err == nil {
			if err = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0); err == nil {
				err = syscall.Bind(fd, &syscall.SockaddrInet6{Port: port})
			}
			if err == nil {
				return newListener(fd, port)
			}
			syscall.Close(fd)
			if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EACCES) {
				return nil, err
			}
		}
	}
	fd, err := tcpSocket(syscall.AF_INET)
	if err != nil {
		return nil, err
	}
	to := &syscall.SockaddrInet4{Port: port}
	if where == loopback {
		to.Addr = [4]byte{127, 0, 0, 1}
	}
	if err := syscall.Bind(fd, to); err != nil {
		syscall.Close(fd)
		return nil, err
	}
	return newListener(fd, port)
}

func tcpSocket(family int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		syscall.Close(fd)
		return -1, err
	}
	return fd, nil
}

func newListener(fd, port int) (*listener, error) {
	err := syscall.Listen(fd, backlog)
	if err == nil {
		err = syscall.SetNonblock(fd, true)
	}
	if err != nil {
		syscall.Close(fd)
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "listener")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &listener{f, raw, port}, nil
}

func (l *listener) close() { l.file.Close() }

// accept waits for the next connection, and returns it with the address of its peer.
func (l *listener) accept() (*os.File, string, error) {
	fd := -1
	var from syscall.Sockaddr
	var failed error
	err := l.raw.Read(func(n uintptr) bool {
		fd, from, failed = acceptAt(n)
		return !errors.Is(failed, syscall.EAGAIN)
	})
	if err != nil {
		return nil, "", os.ErrClosed // the only cause
	}
	return connection(fd, from, failed)
}

// acceptWaiting is accept for a connection that waits in the backlog. It returns an error if there is none.
func (l *listener) acceptWaiting() (*os.File, string, error) {
	fd := -1
	var from syscall.Sockaddr
	var failed error
	if err := l.raw.Control(func(n uintptr) { fd, from, failed = acceptAt(n) }); err != nil {
		return nil, "", err
	}
	return connection(fd, from, failed)
}

func acceptAt(listener uintptr) (fd int, from syscall.Sockaddr, err error) {
	for {
		if fd, from, err = syscall.Accept(int(listener)); !errors.Is(err, syscall.EINTR) {
			return fd, from, err
		}
	}
}

func connection(fd int, from syscall.Sockaddr, failed error) (*os.File, string, error) {
	if failed == nil {
		syscall.CloseOnExec(fd)
		if failed = syscall.SetNonblock(fd, true); failed != nil {
			syscall.Close(fd)
		}
	}
	if failed != nil {
		return nil, "", os.NewSyscallError("accept", failed)
	}
	return os.NewFile(uintptr(fd), "connection"), format(from), nil
}

// address returns the listener's address.
func (l *listener) address() string {
	var name syscall.Sockaddr
	err := l.raw.Control(func(fd uintptr) { name, _ = syscall.Getsockname(int(fd)) })
	if err != nil {
		return ""
	}
	return format(name)
}

func format(a syscall.Sockaddr) string {
	switch a := a.(type) {
	case *syscall.SockaddrInet4:
		return format4(a.Addr) + ":" + strconv.Itoa(a.Port)
	case *syscall.SockaddrInet6:
		if [12]byte(a.Addr[:12]) == [12]byte{10: 0xff, 11: 0xff} {
			return format4([4]byte(a.Addr[12:])) + ":" + strconv.Itoa(a.Port)
		}
		if a.Addr == [16]byte{} {
			return "[::]:" + strconv.Itoa(a.Port)
		}
		if a.Addr == [16]byte{15: 1} {
			return "[::1]:" + strconv.Itoa(a.Port)
		}
		s := ""
		for i := 0; i < 16; i += 2 {
			s += fmt.Sprintf(":%x", uint16(a.Addr[i])<<8|uint16(a.Addr[i+1]))
		}
		return "[" + s[1:] + "]:" + strconv.Itoa(a.Port)
	}
	return ""
}

func format4(b [4]byte) string { return fmt.Sprintf("%d.%d.%d.%d", b[0], b[1], b[2], b[3]) }
