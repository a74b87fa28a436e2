//go:build !linux

package proxy

func setLateSourcePort(int) error { return nil }
