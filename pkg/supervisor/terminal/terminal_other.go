//go:build !linux

// Package terminal owns pseudo-terminals: for containers, whose supervisor holds them, and for commands that are run in
// them.
package terminal

import (
	"fmt"
	"os"
	"runtime"
)

// Open returns both ends of a new pseudo-terminal, of which there are none here.
func Open() (ours, theirs *os.File, err error) {
	return nil, nil, fmt.Errorf("the process runtime has no terminals on %s", runtime.GOOS)
}

// Resize tells the terminal its size in characters.
func Resize(*os.File, uint16, uint16) error { return nil }
