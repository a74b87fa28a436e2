//go:build !linux

package wire

// Go ignores SIGPIPE on all descriptors but 1 and 2, and received descriptors are marked one by one.
const (
	noSignal = 0
	cloexec  = 0
)
