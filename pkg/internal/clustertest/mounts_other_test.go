//go:build !linux

package clustertest

func grantsMounts() bool { return false }
