package kubelet

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/minikctl/minikctl/pkg/objects/metrics"
)

// usageOfPods serves what the pods of nodes use.
func (s *Server) usageOfPods(w http.ResponseWriter, r *http.Request, nodes []*Kubelet) {
	namespace := r.URL.Query().Get("namespace")
	writeReport(w, report(r.Context(), nodes, func(ctx context.Context, k *Kubelet, m Meter) (out metrics.Report) {
		out.Pods = k.podUsage(ctx, m, namespace)
		return out
	}))
}

// usageOfNodes serves what the pods of each of the nodes use together.
func (s *Server) usageOfNodes(w http.ResponseWriter, r *http.Request, nodes []*Kubelet) {
	writeReport(w, report(r.Context(), nodes, func(ctx context.Context, k *Kubelet, m Meter) metrics.Report {
		return metrics.Report{Nodes: []v1beta1.NodeMetrics{k.nodeUsage(k.podUsage(ctx, m, ""))}}
	}))
}

func writeReport(w http.ResponseWriter, r metrics.Report) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(r) // the client has disconnected
}

// report joins the reports of the kubelets whose runtimes measure usage.
func report(ctx context.Context, nodes []*Kubelet, of func(context.Context, *Kubelet, Meter) metrics.Report) metrics.Report {
	var mu sync.Mutex
	var all sync.WaitGroup
	var out metrics.Report
	for _, k := range nodes {
		m, ok := k.runtime.(Meter)
		if !ok || k.down() {
			continue
		}
		all.Go(func() { // a runtime may take a second
			r := of(ctx, k, m)
			mu.Lock()
			defer mu.Unlock()
			out.Pods, out.Nodes = append(out.Pods, r.Pods...), append(out.Nodes, r.Nodes...)
		})
	}
	all.Wait()
	return out
}

// podUsage returns what the node's pods in a namespace use, in all with "". It leaves out pods with a running container whose usage is
// unknown.
func (k *Kubelet) podUsage(ctx context.Context, m Meter, namespace string) []v1beta1.PodMetrics {
	pods := k.runningPods(namespace)
	if len(pods) == 0 {
		return nil
	}
	used, err := m.Usage(ctx, pods)
	if err != nil {
		if ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot measure what pods use", "node", k.Name, "err", err)
		}
		return nil
	}
	var out []v1beta1.PodMetrics
	for _, p := range pods {
		if pm, ok := podMetrics(p, used); ok {
			out = append(out, pm)
		}
	}
	return out
}

// runningPods returns the pods with a running container, with their current annotations. They include those that Stages run.
func (k *Kubelet) runningPods(namespace string) []Pod {
	k.mu.Lock()
	var out []Pod
	for _, p := range k.seen {
		if (namespace == "" || p.Namespace == namespace) && p.running() {
			out = append(out, p)
		}
	}
	k.mu.Unlock()
	for i := range out {
		if pod, ok := k.pods.Get(out[i].key()); ok && pod.UID == out[i].UID {
			out[i].Annotations = pod.Annotations
		}
	}
	return append(out, k.stagedPods(namespace)...)
}

// podMetrics returns the metrics of a pod's running containers. Their time is that of the earliest one.
func podMetrics(p Pod, used map[ContainerID]Usage) (v1beta1.PodMetrics, bool) {
	pm := v1beta1.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
	for _, c := range p.Containers {
		if !c.Running {
			continue
		}
		u, ok := used[c.ID]
		if !ok {
			return pm, false
		}
		if len(pm.Containers) == 0 || u.Time.Before(pm.Timestamp.Time) {
			pm.Timestamp, pm.Window = metav1.NewTime(u.Time), metav1.Duration{Duration: u.Window.Round(time.Millisecond)}
		}
		pm.Containers = append(pm.Containers, v1beta1.ContainerMetrics{Name: c.Name, Usage: u.Resources})
	}
	slices.SortFunc(pm.Containers, func(a, b v1beta1.ContainerMetrics) int { return strings.Compare(a.Name, b.Name) })
	return pm, len(pm.Containers) > 0
}

// nodeUsage adds up what pods use. Several nodes may share the machine, whose own usage says nothing about one of them.
func (k *Kubelet) nodeUsage(pods []v1beta1.PodMetrics) v1beta1.NodeMetrics {
	out := v1beta1.NodeMetrics{ObjectMeta: metav1.ObjectMeta{Name: k.Name}, Timestamp: metav1.NewTime(k.host.Clock.Now())}
	var containers []v1beta1.ContainerMetrics
	for _, p := range pods {
		containers = append(containers, p.Containers...)
		out.Window.Duration = max(out.Window.Duration, p.Window.Duration)
	}
	out.Usage = metrics.Sum(containers)
	for name, format := range map[corev1.ResourceName]resource.Format{corev1.ResourceCPU: resource.DecimalSI, corev1.ResourceMemory: resource.BinarySI} {
		if _, ok := out.Usage[name]; !ok {
			out.Usage[name] = *resource.NewQuantity(0, format)
		}
	}
	return out
}
