//go:build !linux

package confined

import "errors"

// Exec returns an error: only Linux has seccomp.
func Exec([]string, ...uint32) error { return errors.ErrUnsupported }
