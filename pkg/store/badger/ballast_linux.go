package badger

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// allocate makes a file take size bytes of its disk.
func allocate(f *os.File, size int64) error {
	for {
		if err := unix.Fallocate(int(f.Fd()), 0, 0, size); !errors.Is(err, unix.EINTR) { // the scheduler's signals
			return err
		}
	}
}
