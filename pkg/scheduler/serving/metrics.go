package serving

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// countTime bounds how long a request for metrics waits for the scheduling loop.
const countTime = time.Second

// Collector collects the metrics of a scheduler, for /metrics of a process that the scheduler shares with other components.
type Collector struct{ Scheduler Scheduler }

// Describe implements prometheus.Collector: the descriptions are those of the metrics.
func (Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c Collector) Collect(out chan<- prometheus.Metric) {
	//nolint:forbidigo // a prometheus.Collector is given no context
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	c.Scheduler.Metrics(ctx).Collect(out)
}

// metrics serves the metrics of the process and those of the scheduler.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), countTime)
	defer cancel()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Scheduler.Metrics(ctx), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}
