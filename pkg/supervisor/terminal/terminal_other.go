//go:build !linux

// Package terminal creates pseudo-terminals, for containers and for commands that are executed in containers. The
// supervisor holds the terminals of containers.
package terminal

import (
	"fmt"
	"os"
	"runtime"
)

// Open returns an error: there are no pseudo-terminals here.
func Open() (ours, theirs *os.File, err error) {
	return nil, nil, fmt.Errorf("the process runtime has no terminals on %s", runtime.GOOS)
}

// Resize does nothing.
func Resize(*os.File, uint16, uint16) error { return nil }
