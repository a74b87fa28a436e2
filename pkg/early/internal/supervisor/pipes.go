package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/minikctl/minikctl/pkg/early/wire"
)

// pipes are a container's output. They are named, and the container has them open for reading too, so that a container
// whose supervisor has died is not ended by SIGPIPE: it writes on, until the pipe is full, and the next supervisor reads on.
type pipes struct {
	outReader, errReader *os.File
	outWriter, errWriter *os.File
}

func (c *container) openPipes() (*pipes, error) {
	p, err := c.openReaders()
	if err != nil {
		return nil, err
	}
	if p.outWriter, err = openWriter(c.pipe(wire.Pipes[0])); err == nil {
		p.errWriter, err = openWriter(c.pipe(wire.Pipes[1]))
	}
	if err != nil {
		p.closeWriters()
		p.close()
		return nil, err
	}
	return p, nil
}

// openReaders opens the ends that the supervisor reads, and makes the pipes where they are missing.
func (c *container) openReaders() (*pipes, error) {
	for _, name := range wire.Pipes {
		path := c.pipe(name)
		err := syscall.Mkfifo(path, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, &os.PathError{Op: "mkfifo", Path: path, Err: err}
		}
		if err := c.chown(path); err != nil { // a program may open /dev/stdout
			return nil, err
		}
	}
	out, err := openReader(c.pipe(wire.Pipes[0]))
	if err != nil {
		return nil, err
	}
	stderr, err := openReader(c.pipe(wire.Pipes[1]))
	if err != nil {
		out.Close()
		return nil, err
	}
	return &pipes{outReader: out, errReader: stderr}, nil
}

// openWriter opens the container's end. Unlike os.OpenFile it leaves it blocking: programs don't expect EAGAIN.
func openWriter(path string) (*os.File, error) {
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func (c *container) pipe(name string) string { return c.spec.Folder + "/" + name }

func (p *pipes) close() {
	p.outReader.Close()
	p.errReader.Close()
}

func (p *pipes) closeWriters() {
	if p.outWriter != nil {
		p.outWriter.Close()
	}
	if p.errWriter != nil {
		p.errWriter.Close()
	}
}

// descriptor returns f's number without making it blocking. f stays open while it is used.
func descriptor(f *os.File) uintptr {
	fd := ^uintptr(0)
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(n uintptr) { fd = n })
	}
	return fd
}

func duplicate(f *os.File) (*os.File, error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Dup(int(descriptor(f)))
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}
