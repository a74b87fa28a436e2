package proxy

import (
	"io"
	"net"
	"sync"
	"syscall"
)

// buffers are those of what is being passed on. A connection without data has none.
var buffers = sync.Pool{New: func() any { return new([maxPacket]byte) }}

// pass copies until from ends, and then ends to.
func pass(to, from *net.TCPConn) {
	if err := copyTo(to, from); err != nil {
		_ = to.SetLinger(0) // pass the failure on as a reset
		to.Close()
		from.Close()
		return
	}
	_ = to.CloseWrite()
}

// copyTo copies until from ends. io.Copy would keep a pipe for each direction while it waits, which is twice as many descriptors as the
// connections have.
func copyTo(to io.Writer, from syscall.Conn) error {
	raw, err := from.SyscallConn()
	if err != nil {
		return err
	}
	for {
		err := next(raw, func(b []byte) error {
			if len(b) == 0 {
				return io.EOF
			}
			_, err := to.Write(b)
			return err
		})
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// next waits until a socket has data, without holding a buffer meanwhile, and calls use with the data, which are empty at the end of a stream.
func next(raw syscall.RawConn, use func([]byte) error) error {
	var buffer *[maxPacket]byte
	var n int
	var failed error
	err := raw.Read(func(fd uintptr) bool {
		buffer = buffers.Get().(*[maxPacket]byte)
		for {
			n, failed = syscall.Read(int(fd), buffer[:])
			if failed != syscall.EINTR {
				break
			}
		}
		if failed == syscall.EAGAIN {
			buffers.Put(buffer)
			return false
		}
		return true
	})
	if err != nil { // the socket is closed, or its deadline has passed
		return err
	}
	defer buffers.Put(buffer)
	if failed != nil {
		return failed
	}
	return use(buffer[:n])
}
