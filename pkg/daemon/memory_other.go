//go:build !linux

package daemon

import "runtime/debug"

// releaseStartup gives back the heap's free pages.
func releaseStartup() { debug.FreeOSMemory() }
