package match

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestKindOf checks that an object of a subresource has a kind even with an empty TypeMeta.
func TestKindOf(t *testing.T) {
	for want, sub := range map[string]runtime.Object{
		"/v1, Kind=Binding": &corev1.Binding{}, "/v1, Kind=PodExecOptions": &corev1.PodExecOptions{},
		"/v1, Kind=PodAttachOptions": &corev1.PodAttachOptions{}, "/v1, Kind=PodPortForwardOptions": &corev1.PodPortForwardOptions{},
		"/v1, Kind=PodProxyOptions": &corev1.PodProxyOptions{}, "/v1, Kind=NodeProxyOptions": &corev1.NodeProxyOptions{},
		"/v1, Kind=ServiceProxyOptions": &corev1.ServiceProxyOptions{}, "policy/v1, Kind=Eviction": &policyv1.Eviction{},
		"autoscaling/v1, Kind=Scale": &autoscalingv1.Scale{}, "authentication.k8s.io/v1, Kind=TokenRequest": &authenticationv1.TokenRequest{},
	} {
		if got := kindOf(sub).String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
