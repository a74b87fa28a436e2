package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/minikctl/minikctl/pkg/supervisor/terminal"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// pipes are a container's streams. The output pipes are named. The container has them open for reading, too, so that SIGPIPE
// does not end it when the supervisor dies: it writes until the pipe is full, and the next supervisor reads on. The
// supervisor holds an input pipe open, so that the input does not end before a client joins. A container with a terminal has
// no pipes, and keeps the supervisor's end of the terminal as well.
type pipes struct {
	out, err *os.File   // read ends; with a terminal, out is the terminal and err is nil
	in       *os.File   // held open, not used
	theirs   []*os.File // the container's standard streams
	kept     []*os.File // what the container keeps for the next supervisor
}

// openPipes creates a container's streams and opens both ends.
func (c *container) openPipes() (*pipes, error) {
	if c.spec.TTY {
		return c.openTerminal()
	}
	p, err := c.openOurs()
	if err != nil {
		return nil, err
	}
	open := []func() (*os.File, error){
		func() (*os.File, error) { return os.Open(os.DevNull) },
		func() (*os.File, error) { return openBlocking(c.pipe(wire.Pipes[0]), syscall.O_RDWR) },
		func() (*os.File, error) { return openBlocking(c.pipe(wire.Pipes[1]), syscall.O_RDWR) },
	}
	if c.spec.Stdin {
		open[0] = func() (*os.File, error) { return openBlocking(c.pipe(wire.InputPipe), syscall.O_RDONLY) }
	}
	for _, f := range open {
		file, err := f()
		if err != nil {
			p.closeTheirs()
			p.close()
			return nil, err
		}
		p.theirs = append(p.theirs, file)
	}
	return p, nil
}

func (c *container) openTerminal() (*pipes, error) {
	ours, theirs, err := terminal.Open()
	if err != nil {
		return nil, err
	}
	if err := c.chown(theirs.Name()); err != nil {
		ours.Close()
		theirs.Close()
		return nil, err
	}
	return &pipes{out: ours, theirs: []*os.File{theirs, theirs, theirs}, kept: []*os.File{ours}}, nil
}

// openOurs opens the supervisor's ends, and creates missing pipes.
func (c *container) openOurs() (*pipes, error) {
	names := wire.Pipes[:]
	if c.spec.Stdin {
		names = []string{wire.Pipes[0], wire.Pipes[1], wire.InputPipe}
	}
	for _, name := range names {
		if err := c.makePipe(name); err != nil {
			return nil, err
		}
	}
	p := &pipes{}
	var err error
	if p.out, err = openReader(c.pipe(wire.Pipes[0])); err == nil {
		p.err, err = openReader(c.pipe(wire.Pipes[1]))
	}
	if err == nil && c.spec.Stdin && !c.status.Closed {
		p.in, err = openBlocking(c.pipe(wire.InputPipe), syscall.O_RDWR)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (c *container) makePipe(name string) error {
	path := c.pipe(name)
	err := syscall.Mkfifo(path, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	return c.chown(path) // a program may open /dev/stdout
}

// openBlocking opens a file for a container, or to be held open. Unlike os.OpenFile it leaves the file blocking, because
// programs don't expect EAGAIN.
func openBlocking(path string, mode int) (*os.File, error) {
	fd, err := syscall.Open(path, mode|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

func (c *container) pipe(name string) string { return c.spec.StateDir + "/" + name }

func (p *pipes) close() {
	for _, f := range []*os.File{p.out, p.err, p.in} {
		if f != nil {
			f.Close()
		}
	}
}

func (p *pipes) closeTheirs() {
	for _, f := range p.theirs {
		f.Close() // a terminal is there three times; closing it again does nothing
	}
	p.theirs = nil
}

// descriptor returns f's descriptor without making it blocking. The caller keeps f open while it uses the descriptor.
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
