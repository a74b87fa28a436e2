package volume

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPullPolicy(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for image, want := range map[string]corev1.PullPolicy{
		"nginx":                  corev1.PullAlways,
		"nginx:latest":           corev1.PullAlways,
		"host:5000/x":            corev1.PullAlways,
		"host:5000/x:latest":     corev1.PullAlways,
		"nginx:latest" + digest:  corev1.PullAlways,
		"nginx:1.27":             corev1.PullIfNotPresent,
		"host:5000/x:1":          corev1.PullIfNotPresent,
		"nginx" + digest:         corev1.PullIfNotPresent,
		"UPPER":                  corev1.PullIfNotPresent, // not a reference
		"":                       corev1.PullIfNotPresent,
		strings.Repeat("0a", 32): corev1.PullIfNotPresent, // an image ID
	} {
		if got := PullPolicy(image); got != want {
			t.Errorf("%q: got %s, want %s", image, got, want)
		}
	}
}
