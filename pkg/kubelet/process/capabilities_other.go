//go:build !linux

package process

// ownCapabilities is empty: this system has no capabilities.
func ownCapabilities() uint64 { return 0 }
