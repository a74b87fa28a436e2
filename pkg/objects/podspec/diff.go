package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// Diff formats the difference of two specs as the error about a forbidden change does.
func Diff(old, now *corev1.PodSpec) string { return diff.Diff(check.Shown(old), check.Shown(now)) }

// DiffContainer formats the difference of two ephemeral containers.
func DiffContainer(old, now *corev1.EphemeralContainer) string {
	return DiffValues(old, now)
}

// DiffValues formats the difference of two values of the core API.
func DiffValues[T any](old, now *T) string { return diff.Diff(check.Shown(old), check.Shown(now)) }
