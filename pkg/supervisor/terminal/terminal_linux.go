// Package terminal creates pseudo-terminals, for containers and for commands that are executed in containers. The
// supervisor holds the terminals of containers.
package terminal

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Open returns both ends of a new pseudo-terminal. Reads from the first end with an error once the second is closed
// everywhere.
func Open() (ours, theirs *os.File, err error) {
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
		// The file is opened in blocking mode, unlike by os.OpenFile: the program in the terminal shares the mode, and
		// does not expect EAGAIN.
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

// Resize sets the terminal's size in characters, and signals it to the programs that use the terminal.
func Resize(terminal *os.File, width, height uint16) error {
	return onDescriptor(terminal, func(fd int) error {
		return os.NewSyscallError("ioctl TIOCSWINSZ",
			unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}))
	})
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
