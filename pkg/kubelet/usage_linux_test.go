package kubelet_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/clientset/versioned"
)

// TestUsage: the API server serves what the processes of pods use.
func TestUsage(t *testing.T) {
	w := newWhole(t)
	metrics, err := versioned.NewForConfig(w.env.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	pods := metrics.MetricsV1beta1().PodMetricses("default")
	busy := shell("busy", "(while :; do :; done) & wait")
	busy.Labels = map[string]string{"app": "busy"}
	w.create(busy)
	w.create(shell("idle", "sleep 1000"))
	w.ready("busy")
	w.ready("idle")

	var list *v1beta1.PodMetricsList
	w.until("both pods are measured", func() string {
		if list, err = pods.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 2 {
			return fmt.Sprint(list, err)
		}
		return ""
	})
	for _, m := range list.Items {
		c := m.Containers[0]
		if len(m.Containers) != 1 || c.Name != "sh" || c.Usage.Memory().Value() < 100<<10 || m.Window.Duration <= 0 || m.Timestamp.IsZero() {
			t.Errorf("unlikely: %+v", m)
		}
		// The loop runs in a process that the container's first one has forked. A busy machine gives it little time.
		if cpu := c.Usage.Cpu().ScaledValue(-9); m.Name == "busy" && cpu < 10e6 || m.Name == "idle" && cpu > 500e6 {
			t.Errorf("%s uses %v", m.Name, c.Usage.Cpu())
		}
	}
	if list, err = pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app=busy"}); err != nil || len(list.Items) != 1 || list.Items[0].Labels["app"] != "busy" {
		t.Errorf("by label: %v, %v", list, err)
	}
	if one, err := pods.Get(t.Context(), "idle", metav1.GetOptions{}); err != nil || one.Name != "idle" {
		t.Errorf("one: %v, %v", one, err)
	}
	if _, err := pods.Get(t.Context(), "other", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that does not exist: %v", err)
	}
	nodes, err := metrics.MetricsV1beta1().NodeMetricses().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 1 || nodes.Items[0].Name != "n1" || nodes.Items[0].Usage.Memory().Value() < 200<<10 {
		t.Errorf("nodes: %+v, %v", nodes, err)
	}
}

// TestNodeProxyEndpoints: the API server's proxy reaches the endpoints of a node's kubelet, which measures real processes.
func TestNodeProxyEndpoints(t *testing.T) {
	w := newWhole(t)
	w.create(shell("busy", "(while :; do :; done) & wait"))
	w.ready("busy")
	node := w.api.CoreV1().RESTClient()
	get := func(path string) string {
		b, err := node.Get().AbsPath("/api/v1/nodes/n1/proxy" + path).DoRaw(t.Context())
		if err != nil {
			return err.Error()
		}
		return string(b)
	}
	w.until("the pod is measured", func() string {
		var s stats.Summary
		body := get("/stats/summary")
		if err := json.Unmarshal([]byte(body), &s); err != nil || len(s.Pods) != 1 || s.Pods[0].CPU == nil || *s.Pods[0].CPU.UsageCoreNanoSeconds == 0 {
			return body
		}
		if s.Node.NodeName != "n1" || *s.Pods[0].Memory.WorkingSetBytes < 100<<10 || *s.Node.Rlimit.MaxPID < 100 {
			t.Errorf("unlikely: %s", body)
		}
		return ""
	})
	for path, want := range map[string]string{
		"/healthz": "ok", "/pods": `"name":"busy"`, "/metrics": `kubelet_node_name{node="n1"} 1`, "/metrics/probes": "",
		"/metrics/resource": `container_memory_working_set_bytes{container="sh",namespace="default",pod="busy"} `,
		"/metrics/cadvisor": `container_cpu_usage_seconds_total{container="sh",cpu="total",`,
	} {
		if got := get(path); !strings.Contains(got, want) {
			t.Errorf("%s: no %s in %s", path, want, got)
		}
	}
	_, err := node.Post().AbsPath("/api/v1/nodes/n1/proxy/checkpoint/default/busy/sh").DoRaw(t.Context())
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "cannot checkpoint containers") {
		t.Errorf("checkpoint: %v", err)
	}
}
