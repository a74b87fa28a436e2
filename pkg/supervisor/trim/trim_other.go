//go:build !linux

package trim

// Now does nothing here.
func Now() {}
