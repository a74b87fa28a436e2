package role

import "os"

// Self returns a path that executes this program. The kernel's link to it works also when the file was replaced or
// deleted, as "go run" does, and always means the very same build.
func Self() string {
	const link = "/proc/self/exe"
	if _, err := os.Stat(link); err == nil {
		return link
	}
	path, err := os.Executable()
	if err != nil {
		return link // starting it will say why
	}
	return path
}
