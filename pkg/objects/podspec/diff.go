package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// maxDiff is the sum of the sizes, as protobuf, up to which values are compared line by line, which takes a second per megabyte.
// Kubernetes compares all.
const maxDiff = 128 << 10

// Diff formats the difference of two specs as the error about a forbidden change does.
func Diff(old, now *corev1.PodSpec) string { return DiffValues(old, now) }

// DiffContainer formats the difference of two ephemeral containers.
func DiffContainer(old, now *corev1.EphemeralContainer) string {
	return DiffValues(old, now)
}

// DiffValues formats the difference of two values of the core API.
func DiffValues[T interface{ Size() int }](old, now T) string {
	if old.Size()+now.Size() > maxDiff {
		return "the values are too large to show their difference"
	}
	return diff.Diff(check.Shown(old), check.Shown(now))
}
