// Package wire owns how the daemon, the supervisor and a container's first steps talk: the messages, and their framing
// on a unix stream socket. A frame is a length, JSON, and the file descriptors that travel with it.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

const (
	maxFrame = 16 << 20 // above what execve accepts as arguments and environment
	maxFiles = 8        // of one frame
)

// Conn sends and receives frames. Send is safe for concurrent use; one goroutine may Receive.
type Conn struct {
	unix *net.UnixConn
	send sync.Mutex
}

// NewConn frames u.
func NewConn(u *net.UnixConn) *Conn { return &Conn{unix: u} }

// FileConn frames the socket that f is an end of, and closes f.
func FileConn(f *os.File) (*Conn, error) {
	c, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("not a unix socket")
	}
	return NewConn(u), nil
}

// Pair returns two connected ends. The second is a file, to be inherited by a child.
func Pair() (*Conn, *os.File, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "socketpair")
	ours, err := FileConn(os.NewFile(uintptr(fds[0]), "socketpair"))
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.unix.Close() }

// Send sends message with files, which stay the caller's.
func (c *Conn) Send(message any, files ...*os.File) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	if len(body) > maxFrame {
		return fmt.Errorf("message of %d bytes is too long", len(body))
	}
	frame := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(rawFD(f))
		}
		rights = syscall.UnixRights(fds...)
	}
	c.send.Lock()
	defer c.send.Unlock()
	n, _, err := c.unix.WriteMsgUnix(frame, rights, nil)
	if err == nil && n < len(frame) {
		_, err = c.unix.Write(frame[n:])
	}
	return err
}

// rawFD returns f's descriptor without making it blocking, which File.Fd would.
func rawFD(f *os.File) uintptr {
	var fd uintptr
	raw, err := f.SyscallConn()
	if err != nil {
		return ^uintptr(0)
	}
	if raw.Control(func(n uintptr) { fd = n }) != nil {
		return ^uintptr(0)
	}
	return fd
}

// Receive reads the next frame into message. The files that came with it are the caller's. At a clean end it is io.EOF.
func (c *Conn) Receive(message any) ([]*os.File, error) {
	var head [4]byte
	oob := make([]byte, syscall.CmsgSpace(4*maxFiles))
	n, oobn, _, _, err := c.unix.ReadMsgUnix(head[:], oob)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	files, err := parseFiles(oob[:oobn])
	if err == nil {
		err = c.body(head[:], n, message)
	}
	if err != nil {
		CloseFiles(files)
		return nil, err
	}
	return files, nil
}

func (c *Conn) body(head []byte, n int, message any) error {
	if _, err := io.ReadFull(c.unix, head[n:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head)
	if size > maxFrame {
		return fmt.Errorf("frame of %d bytes is too long", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.unix, body); err != nil {
		return err
	}
	return json.Unmarshal(body, message)
}

func parseFiles(oob []byte) ([]*os.File, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, os.NewSyscallError("recvmsg", err)
	}
	var files []*os.File
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue // credentials or the like: nothing to close
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

// CloseFiles closes what Receive returned.
func CloseFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
