//go:build !linux

package daemon

import "context"

// exiting refers to a process; here to none.
type exiting struct{}

func openProcess(int) exiting { return exiting{} }

func (exiting) close() {}

func (exiting) wait(context.Context) error { return nil }
