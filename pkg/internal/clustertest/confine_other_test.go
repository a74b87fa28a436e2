//go:build !linux

package clustertest

import "errors"

const confineVariable = "MINIKCTL_TEST_CONFINE"

func confine([]string) error { return errors.New("only Linux has seccomp") }
