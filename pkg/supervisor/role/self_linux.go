package role

import "os"

// Self returns a path that executes this program. The kernel's link executes the same build even if the file was replaced or
// deleted, as go run does.
func Self() string {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link
	}
	path, err := os.Executable()
	if err != nil {
		return link // executing it returns the reason
	}
	return path
}
