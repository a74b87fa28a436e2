package process

import "golang.org/x/sys/unix"

// ownCapabilities returns the bit of each capability of this process, which is what containers can have.
func ownCapabilities() uint64 {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return 0
	}
	return uint64(data[1].Permitted)<<32 | uint64(data[0].Permitted)
}
