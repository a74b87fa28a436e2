package kubelet

import (
	"encoding/json"
	"net/http"
	"time"
)

// configz serves the KubeletConfiguration of a node in the form of Kubernetes' components.
func (s *Server) configz(w http.ResponseWriter, _ *http.Request, k *Kubelet) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(map[string]any{"kubeletconfig": k.configuration(s.Port)}) // fails only when the client has disconnected
}

// configuration returns the fields of the KubeletConfiguration that have a meaning for this kubelet, with the values in force. port is that of the server.
func (k *Kubelet) configuration(port int32) map[string]any {
	capacity := k.capacity()
	conf := map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"enableServer": true, "port": port, "healthzPort": 0,
		"authentication":          map[string]any{"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true}},
		"authorization":           map[string]any{"mode": "Webhook"},
		"enableDebuggingHandlers": true, "enableDebugFlagsHandler": true, "enableProfilingHandler": false, "enableSystemLogHandler": false,
		"registerNode": true, "nodeLeaseDurationSeconds": int(leaseDuration / time.Second), "maxPods": capacity.Pods().Value(),
		"clusterDomain": ClusterDomain,
	}
	if dns := k.host.ClusterDNS; dns.IsValid() {
		conf["clusterDNS"] = []string{dns.String()}
	}
	for field, value := range k.host.Settings {
		conf[field] = value
	}
	return conf
}
