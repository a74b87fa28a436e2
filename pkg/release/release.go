// Package release names the release of Kubernetes that minikctl implements.
package release

const (
	// Kubernetes is the release, as servers and clients report it.
	Kubernetes = "v" + Number
	// Number is the release without the v.
	Number = Major + "." + Minor + ".3"
	// Major and Minor are its first two numbers.
	Major, Minor = "1", "36"
)
