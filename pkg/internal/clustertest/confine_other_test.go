//go:build !linux

package clustertest

const confineVariable = "MINIKCTL_TEST_CONFINE"
