//go:build !linux

package role

import "os"

// Self returns a path that executes this program.
func Self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0] // executing it returns the reason
	}
	return path
}
