package serving

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// samples are metrics that were collected for one request.
type samples []prometheus.Metric

// Describe implements prometheus.Collector: the descriptions are those of the metrics.
func (samples) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s samples) Collect(out chan<- prometheus.Metric) {
	for _, m := range s {
		out <- m
	}
}

// countTime bounds how long a request for metrics waits for the scheduling loop.
const countTime = time.Second

// metrics serves the metrics of the process, and those of kube-scheduler that are known here.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	attempts := prometheus.NewDesc("scheduler_schedule_attempts_total",
		"[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.",
		[]string{"profile", "result"}, nil)
	pending := prometheus.NewDesc("scheduler_pending_pods",
		"[STABLE] Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means number of pods in backoffQ; "+
			"'unschedulable' means number of pods in unschedulablePods that the scheduler attempted to schedule and failed; "+
			"'gated' is the number of unschedulable pods that the scheduler never attempted to schedule because they are gated.",
		[]string{"queue"}, nil)
	var all samples
	for kind, n := range s.Scheduler.Attempts() {
		all = append(all, prometheus.MustNewConstMetric(attempts, prometheus.CounterValue, float64(n), kind.Profile, kind.Result))
	}
	if s.Scheduler.Ready() {
		ctx, cancel := context.WithTimeout(r.Context(), countTime)
		defer cancel()
		for queue, n := range s.Scheduler.Pending(ctx) {
			all = append(all, prometheus.MustNewConstMetric(pending, prometheus.GaugeValue, float64(n), queue))
		}
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(all, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}
