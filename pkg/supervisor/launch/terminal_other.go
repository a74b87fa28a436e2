//go:build !linux

package launch

import "os"

// keepTerminal has nothing to keep: there are no terminals here.
func keepTerminal(f *os.File) { f.Close() }
