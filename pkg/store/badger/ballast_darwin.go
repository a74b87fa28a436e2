package badger

import (
	"os"

	"golang.org/x/sys/unix"
)

// allocate makes a file take size bytes of its disk.
func allocate(f *os.File, size int64) error {
	want := unix.Fstore_t{Flags: unix.F_ALLOCATEALL, Posmode: unix.F_PEOFPOSMODE, Length: size}
	if err := unix.FcntlFstore(f.Fd(), unix.F_PREALLOCATE, &want); err != nil {
		return err
	}
	return f.Truncate(size)
}
