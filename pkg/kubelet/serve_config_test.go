package kubelet

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/health"
	"github.com/minikctl/minikctl/pkg/logs/logstest"
)

// TestConfiguration checks that the configuration is one that Kubernetes' strict decoding accepts, and that it has the values in force.
func TestConfiguration(t *testing.T) {
	host := &Host{HostConfig: HostConfig{
		ClusterDNS: netip.MustParseAddr("10.0.0.10"), Settings: map[string]any{"evictionHard": map[string]string{"memory.available": "1Gi"}},
	}}
	k := &Kubelet{host: host, NodeConfig: NodeConfig{Capacity: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("7")}}}
	raw, err := yaml.Marshal(k.configuration(12345))
	if err != nil {
		t.Fatal(err)
	}
	if raw, err = yaml.YAMLToJSON(raw); err != nil {
		t.Fatal(err)
	}
	var got v1beta1.KubeletConfiguration
	if strict, err := json.UnmarshalStrict(raw, &got); err != nil || len(strict) > 0 {
		t.Fatal(err, strict)
	}
	if got.Port != 12345 || got.MaxPods != 7 || got.ClusterDNS[0] != "10.0.0.10" || got.ClusterDomain != "cluster.local" || got.EvictionHard["memory.available"] != "1Gi" ||
		got.NodeLeaseDurationSeconds != 40 || *got.HealthzPort != 0 || *got.Authentication.Anonymous.Enabled || !*got.Authentication.Webhook.Enabled || got.Authorization.Mode != "Webhook" ||
		!*got.EnableDebugFlagsHandler || *got.EnableProfilingHandler || got.Kind != "KubeletConfiguration" || got.APIVersion != v1beta1.SchemeGroupVersion.String() {
		t.Errorf("%s", raw)
	}
}

// TestBlockedLog checks that the kubelet is unhealthy while its log is blocked.
func TestBlockedLog(t *testing.T) {
	code := func() int {
		w := httptest.NewRecorder()
		health.NewServer().Serve(w, httptest.NewRequest("GET", "/healthz/log", nil), checksOf(nil))
		return w.Code
	}
	if got := code(); got != http.StatusOK {
		t.Errorf("%d before the log is blocked", got)
	}
	logstest.Blocked(t, func() {
		if got := code(); got != http.StatusInternalServerError {
			t.Errorf("%d while the log is blocked", got)
		}
	})
}
