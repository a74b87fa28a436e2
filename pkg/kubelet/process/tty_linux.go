package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/early/wire"
	"github.com/minikctl/minikctl/pkg/kubelet"
)

// execTTY is Exec with a terminal: one stream in each direction.
func (r *Runtime) execTTY(ctx context.Context, id kubelet.ContainerID, cmd []string, streams kubelet.Streams) (int, error) {
	ours, theirs, err := openTerminal()
	if err != nil {
		return 0, fmt.Errorf("exec: open a terminal: %w", err)
	}
	defer ours.Close()
	if streams.In != nil {
		go func() { _, _ = io.Copy(ours, streams.In) }() // ends with the caller's stream, or at the next byte after the end
	}
	var output, sizes sync.WaitGroup
	output.Go(func() {
		if streams.Out != nil {
			_, _ = io.Copy(streams.Out, ours) // ends with an error once no process has the terminal open
		}
		_, _ = io.Copy(io.Discard, ours)
	})
	ended := make(chan struct{})
	sizes.Go(func() { resize(ours, streams.Resize, ended) })
	command := &wire.Command{Argv: cmd, TTY: true}
	reply, err := r.host.call(ctx, &wire.Request{Op: wire.Exec, ID: string(id), Exec: command}, theirs, theirs, theirs)
	theirs.Close()
	close(ended)
	sizes.Wait()
	cut := r.host.clock.AfterFunc(drain, func() { ours.Close() })
	output.Wait()
	cut.Stop()
	return reply.Exit, err
}

// resize passes on the sizes of the caller's terminal.
func resize(terminal *os.File, sizes <-chan kubelet.WindowSize, ended <-chan struct{}) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			_ = onDescriptor(terminal, func(fd int) error {
				return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: size.Height, Col: size.Width})
			})
		case <-ended:
			return
		}
	}
}

// openTerminal returns both ends of a new pseudo-terminal.
func openTerminal() (ours, theirs *os.File, err error) {
	ours, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	var number int
	err = onDescriptor(ours, func(fd int) error {
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return os.NewSyscallError("ioctl TIOCSPTLCK", err)
		}
		var err error
		number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		return os.NewSyscallError("ioctl TIOCGPTN", err)
	})
	if err == nil {
		// Blocking, unlike what os.OpenFile gives: the command shares the mode.
		var fd int
		path := "/dev/pts/" + strconv.Itoa(number)
		fd, err = unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err == nil {
			return ours, os.NewFile(uintptr(fd), path), nil
		}
		err = &os.PathError{Op: "open", Path: path, Err: err}
	}
	ours.Close()
	return nil, nil, err
}

// onDescriptor calls do with f's descriptor, without making it blocking as File.Fd would.
func onDescriptor(f *os.File, do func(fd int) error) error {
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
