//go:build !linux

package process_test

import "errors"

var errOnlyLinux = errors.New("only on Linux")

func actConfine([]string) error { return errOnlyLinux }

func actBind([]string) error { return errOnlyLinux }

func actBacklog([]string) error { return errOnlyLinux }

func actForks([]string) error { return errOnlyLinux }

func actLimit([]string) error { return errOnlyLinux }

func (m *machine) keeper() int { return 0 }
