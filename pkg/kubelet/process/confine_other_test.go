//go:build !linux

package process_test

import "errors"

func actConfine([]string) error { return errors.New("only on Linux") }
