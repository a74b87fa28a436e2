//go:build !linux

package bench

import "os"

// dropCache does nothing: memory is not measured here.
func dropCache(*os.File) error { return nil }
