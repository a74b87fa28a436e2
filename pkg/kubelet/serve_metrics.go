package kubelet

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/minikctl/minikctl/pkg/kubelet/internal/nodemetrics"
)

// expose writes the metrics of collectors. Of metrics with equal labels, as two pods of one name have while one of them ends, it writes one.
func expose(w http.ResponseWriter, r *http.Request, from ...prometheus.Collector) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(from...)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
}

// serveMetrics serves the metrics of the kubelets: their pods, and the process that they run in.
func serveMetrics(w http.ResponseWriter, r *http.Request, nodes []*Kubelet) {
	all := make([]nodemetrics.Node, len(nodes))
	for i, k := range nodes {
		all[i] = k.nodeMetrics()
		all[i].Claims = k.allClaimStats(r.Context())
	}
	expose(w, r, nodemetrics.Nodes(all), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// nodeMetrics counts the node's pods and containers.
func (k *Kubelet) nodeMetrics() nodemetrics.Node {
	out := nodemetrics.Node{Name: k.Name}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.seen {
		if p.running() {
			out.Pods++
		}
		for _, c := range p.Containers {
			if c.Running {
				out.Running++
			} else {
				out.Exited++
			}
		}
	}
	return out
}

// serveResourceMetrics serves the CPU time and the memory of a node, its pods and their containers.
func serveResourceMetrics(w http.ResponseWriter, r *http.Request, k *Kubelet) {
	s, err := k.summary(r.Context(), false)
	expose(w, r, nodemetrics.Resource(s, err != nil))
}

// serveContainerMetrics serves what is known of the containers of a node in the metrics of cAdvisor.
func serveContainerMetrics(w http.ResponseWriter, r *http.Request, k *Kubelet) {
	s, _ := k.summary(r.Context(), true)
	capacity := k.capacity()
	m := nodemetrics.Machine{
		Cores: capacity.Cpu().Value(), Memory: capacity.Memory().Value(), Kernel: k.machine.kernel, System: k.machine.image,
	}
	expose(w, r, nodemetrics.CAdvisor(s, m, k.containerDetails(), k.host.machineClock().Now()))
}

// containerDetails returns a function that returns what is known of a running container besides its usage.
func (k *Kubelet) containerDetails() func(uid, name string) nodemetrics.Container {
	type at struct{ uid, name string }
	all := map[at]nodemetrics.Container{}
	for _, p := range k.runningPods("") {
		pod, _ := k.host.pod(p.key())
		for _, run := range p.Containers {
			if !run.Running {
				continue
			}
			d := nodemetrics.Container{ID: string(run.ID), Image: run.Image.Name}
			if pod != nil {
				if c, _ := container(pod, run.Name); c != nil {
					d.MilliCPU, d.CPURequested = c.Resources.Limits.Cpu().MilliValue(), c.Resources.Requests.Cpu().MilliValue()
					d.MemoryBytes = c.Resources.Limits.Memory().Value()
				}
			}
			all[at{string(p.UID), run.Name}] = d
		}
	}
	return func(uid, name string) nodemetrics.Container { return all[at{uid, name}] }
}

// serveProbeMetrics serves the counts of the checks of a node's probes.
func serveProbeMetrics(w http.ResponseWriter, r *http.Request, k *Kubelet) {
	var all []*nodemetrics.Probes
	for _, worker := range k.host.allWorkers() {
		if worker.kubelet == k {
			all = append(all, &worker.prober.checks)
		}
	}
	expose(w, r, nodemetrics.ProbeMetrics(all))
}
