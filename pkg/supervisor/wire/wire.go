// Package wire owns the protocol between the daemon, the supervisor and the launched processes of containers: the messages,
// and their framing on a unix stream socket. A frame is a length, JSON, and file descriptors.
package wire

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

const (
	maxFrame = 16 << 20 // above what execve accepts as arguments and environment
	maxFiles = 8        // of one frame
)

// Conn sends and receives frames. Send is safe for concurrent use; only one goroutine may call Receive. Conn does not use
// package net, which initialises too late (see package early).
type Conn struct {
	file *os.File
	raw  syscall.RawConn
	send sync.Mutex
}

// FileConn returns a Conn over the socket f, and closes f.
func FileConn(f *os.File) (*Conn, error) {
	defer f.Close()
	fd := -1
	err := control(f, func(n int) (err error) {
		fd, err = dup(n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return newConn(fd)
}

// newConn returns a Conn over fd, and owns fd from then on.
func newConn(fd int) (*Conn, error) {
	if err := syscall.SetNonblock(fd, true); err != nil { // so that waiting takes no thread, and Close ends it
		syscall.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(fd), "socket")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &Conn{file: f, raw: raw}, nil
}

// control calls do with f's descriptor, without making it blocking as File.Fd would.
func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

func dup(fd int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	n, err := syscall.Dup(fd)
	if err != nil {
		return -1, os.NewSyscallError("dup", err)
	}
	syscall.CloseOnExec(n)
	return n, nil
}

// Pair returns two connected ends. The second is a file for a child to inherit.
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
	ours, err := newConn(fds[0])
	if err != nil {
		syscall.Close(fds[1])
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(fds[1]), "socketpair"), nil
}

// Close ends the connection.
func (c *Conn) Close() error { return c.file.Close() }

// Send sends message with files, which the caller keeps.
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
		fds := make([]int, 0, len(files))
		for _, f := range files {
			if err := control(f, func(fd int) error { fds = append(fds, fd); return nil }); err != nil {
				return err
			}
		}
		rights = syscall.UnixRights(fds...)
	}
	c.send.Lock()
	defer c.send.Unlock()
	n, err := c.sendmsg(frame, rights)
	if err == nil && n < len(frame) {
		_, err = c.file.Write(frame[n:])
	}
	return err
}

func (c *Conn) sendmsg(frame, rights []byte) (int, error) {
	var n int
	var failed error
	err := c.raw.Write(func(fd uintptr) bool {
		for {
			n, failed = syscall.SendmsgN(int(fd), frame, rights, nil, noSignal)
			if !errors.Is(failed, syscall.EINTR) {
				return !errors.Is(failed, syscall.EAGAIN)
			}
		}
	})
	if err != nil {
		return n, err
	}
	return n, os.NewSyscallError("sendmsg", failed)
}

func (c *Conn) recvmsg(buf, oob []byte) (n, oobn int, err error) {
	var failed error
	err = c.raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, _, _, failed = syscall.Recvmsg(int(fd), buf, oob, cloexec)
			if !errors.Is(failed, syscall.EINTR) {
				return !errors.Is(failed, syscall.EAGAIN)
			}
		}
	})
	if err != nil {
		return 0, 0, err
	}
	return n, oobn, os.NewSyscallError("recvmsg", failed)
}

// Receive reads the next frame into message. The caller owns the files that came with it. At a clean end the error is io.EOF.
func (c *Conn) Receive(message any) ([]*os.File, error) {
	var head [4]byte
	oob := make([]byte, syscall.CmsgSpace(4*maxFiles))
	n, oobn, err := c.recvmsg(head[:], oob)
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
	if _, err := io.ReadFull(c.file, head[n:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head)
	if size > maxFrame {
		return fmt.Errorf("frame of %d bytes is too long", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.file, body); err != nil {
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

// Copies returns descriptors of the same sockets or files, which are in no poller. After an error there are none.
func Copies(files []*os.File) ([]int, error) {
	var all []int
	for _, f := range files {
		err := control(f, func(fd int) error {
			n, err := dup(fd)
			if err == nil {
				all = append(all, n)
			}
			return err
		})
		if err != nil {
			for _, fd := range all {
				_ = syscall.Close(fd)
			}
			return nil, err
		}
	}
	return all, nil
}

// FilesOf returns files of copies of descriptors, which the caller closes.
func FilesOf(descriptors []int) ([]*os.File, error) {
	var files []*os.File
	for _, fd := range descriptors {
		n, err := dup(fd)
		if err != nil {
			CloseFiles(files)
			return nil, err
		}
		files = append(files, os.NewFile(uintptr(n), "copy"))
	}
	return files, nil
}

// CloseFiles closes the files of a frame.
func CloseFiles(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
