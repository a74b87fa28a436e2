package podspec

import corev1 "k8s.io/api/core/v1"

// DropGated removes the fields of feature gates that are off in Kubernetes v1.36 and that no cluster switches on: stop signals, and
// projected volumes with trust bundles and pod certificates.
func DropGated(s *corev1.PodSpec) {
	for _, c := range containersOf(s) {
		if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
			continue
		}
		c.Lifecycle.StopSignal = nil
		if *c.Lifecycle == (corev1.Lifecycle{}) {
			c.Lifecycle = nil
		}
	}
	for i := range s.Volumes {
		if s.Volumes[i].Projected == nil {
			continue
		}
		for j := range s.Volumes[i].Projected.Sources {
			source := &s.Volumes[i].Projected.Sources[j]
			source.ClusterTrustBundle, source.PodCertificate = nil, nil
		}
	}
}
