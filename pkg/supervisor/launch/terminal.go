package launch

import (
	"os"

	"golang.org/x/sys/unix"
)

// ownTerminal makes the standard input the controlling terminal of this session.
func ownTerminal() error {
	return os.NewSyscallError("ioctl TIOCSCTTY", unix.IoctlSetInt(0, unix.TIOCSCTTY, 0))
}
