//go:build !linux

package supervisor

// trim does nothing: the kernel is left to find the pages that are not used.
func trim() {}
