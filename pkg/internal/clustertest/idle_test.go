package clustertest

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

var idle = flag.Duration("idle", 12*time.Second, "how long an idle cluster is watched")

// TestIdle runs the components as separate processes, so that the API server counts all their calls, and checks that
// an idle cluster with running pods makes no reads and no new watches, and writes Leases only.
func TestIdle(t *testing.T) {
	t.Parallel()
	const nodes = 3
	h := newHome(t)
	kubeconfig := filepath.Join(h.dir, "kubeconfig")
	h.minikctl("up", "-d", "--only", "apiserver", "--write-kubeconfig", kubeconfig)
	for _, part := range []string{"controllers", "scheduler"} {
		h.minikctl("up", "-d", "--name", part, "--only", part, "--kubeconfig", kubeconfig)
		t.Cleanup(func() { h.minikctl("down", "--purge", "--name", part) })
	}
	h.minikctl("up", "-d", "--name", "kubelet", "--only", "kubelet", "--kubeconfig", kubeconfig, "--nodes", "3")
	t.Cleanup(func() { h.minikctl("down", "--purge", "--name", "kubelet") })
	h.minikctl("create", "deployment", "web", "--image", "minikctl.dev/web", "--replicas", "3")
	h.ready(h.clients(), 3)
	h.quiesce()

	before, running := h.requests()
	time.Sleep(*idle)
	after, stillRunning := h.requests()
	if running != stillRunning {
		t.Errorf("%v watches ran before and %v after", running, stillRunning)
	}
	leases := 0.0
	for key, n := range after {
		n -= before[key]
		switch {
		case n == 0 || strings.HasSuffix(key, " none"):
		case key == "update leases" || key == "patch leases":
			leases += n
		default:
			t.Errorf("%v × %s within %s", n, key, *idle)
		}
	}
	perMinute := leases / nodes / idle.Minutes()
	if leases == 0 || perMinute > 7+1/idle.Minutes() {
		t.Errorf("%.1f writes to Leases for each node and minute", perMinute)
	}
	t.Logf("in %s: %v writes to Leases of %d nodes, no other request, %v watches", *idle, leases, nodes, running)
}

// quiesce waits until the cluster has made no requests for two seconds.
func (h *home) quiesce() {
	h.t.Helper()
	last, since := h.writes(), time.Now()
	for deadline := time.Now().Add(time.Minute); time.Since(since) < 2*time.Second; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatal("the cluster does not come to rest")
		}
		if n := h.writes(); n != last {
			last, since = n, time.Now()
		}
	}
}

// writes counts the requests for resources other than Leases.
func (h *home) writes() float64 {
	all, _ := h.requests()
	sum := 0.0
	for key, n := range all {
		if !strings.HasSuffix(key, " leases") && !strings.HasSuffix(key, " none") {
			sum += n
		}
	}
	return sum
}

// requests reads the API server's counters: requests by "verb resource", and open watches.
func (h *home) requests() (map[string]float64, float64) {
	h.t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(h.minikctl("get", "--raw", "/metrics")))
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, m := range families["minikctl_apiserver_requests_total"].GetMetric() {
		label := map[string]string{}
		for _, l := range m.GetLabel() {
			label[l.GetName()] = l.GetValue()
		}
		out[label["verb"]+" "+label["resource"]] += m.GetCounter().GetValue()
	}
	watches := 0.0
	for _, m := range families["minikctl_apiserver_requests_running"].GetMetric() {
		if m.GetLabel()[0].GetValue() == "watch" {
			watches += m.GetGauge().GetValue()
		}
	}
	return out, watches
}
