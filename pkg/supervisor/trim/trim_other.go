//go:build !linux

package trim

// Now does nothing here.
func Now() {}

// Files does nothing here.
func Files(string) {}

// Resident returns 0 here: the bytes are not known.
func Resident() uint64 { return 0 }
