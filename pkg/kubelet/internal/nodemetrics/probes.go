package nodemetrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Probe is a probe of a container.
type Probe struct {
	Namespace, Pod, UID, Container string
	Kind                           string // "Startup", "Liveness" or "Readiness"
}

// Probes counts the checks of a pod's probes. The zero value is ready, and safe for concurrent use.
type Probes struct {
	mu    sync.Mutex
	count map[Probe]*probeCount
}

type probeCount struct {
	successful, failed float64
	took               prometheus.Histogram // of the successful checks
}

// Observe counts a check of a probe.
func (p *Probes) Observe(probe Probe, success bool, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == nil {
		p.count = map[Probe]*probeCount{}
	}
	c := p.count[probe]
	if c == nil {
		c = &probeCount{took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "prober_probe_duration_seconds", Help: "Duration in seconds for a probe response.",
			ConstLabels: prometheus.Labels{"probe_type": probe.Kind, "container": probe.Container, "pod": probe.Pod, "namespace": probe.Namespace},
		})}
		p.count[probe] = c
	}
	if !success {
		c.failed++
		return
	}
	c.successful++
	c.took.Observe(took.Seconds())
}

// ProbeMetrics returns the metrics of /metrics/probes.
func ProbeMetrics(pods []*Probes) Samples {
	var out Samples
	total := counter("prober_probe_total", "Cumulative number of a liveness, readiness or startup probe for a container by result.",
		"probe_type", "result", "container", "pod", "namespace", "pod_uid")
	for _, p := range pods {
		p.mu.Lock()
		for probe, c := range p.count {
			for result, n := range map[string]float64{"successful": c.successful, "failed": c.failed} {
				if n > 0 {
					out.add(total, n, probe.Kind, result, probe.Container, probe.Pod, probe.Namespace, probe.UID)
				}
			}
			if c.successful > 0 {
				out = append(out, c.took)
			}
		}
		p.mu.Unlock()
	}
	return out
}
