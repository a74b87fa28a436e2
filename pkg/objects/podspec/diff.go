package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"
)

// Diff shows what differs between two specs, as the message about a forbidden change does.
func Diff(old, now *corev1.PodSpec) string { return diff.Diff(old, now) }
