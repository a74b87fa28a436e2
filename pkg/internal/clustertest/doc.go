// Package clustertest tests whole clusters with the scripts in testdata. A script starts its own daemon in an empty
// home directory and uses minikctl and stock kubectl, as a user does. Nothing is mocked.
package clustertest
