//go:build !linux

package trim

// Now does nothing here.
func Now() {}

// Files does nothing here.
func Files(string) {}
