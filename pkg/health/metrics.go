package health

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server serves checks, and how they went at /metrics/slis. It is safe for concurrent use.
type Server struct {
	last    *prometheus.GaugeVec
	total   *prometheus.CounterVec
	metrics http.Handler
}

// NewServer returns a server whose checks have not run yet.
func NewServer() *Server {
	s := &Server{
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubernetes_healthcheck", Help: "[STABLE] This metric records the result of a single healthcheck.",
		}, []string{"name", "type"}),
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubernetes_healthchecks_total", Help: "[STABLE] This metric records the results of all healthcheck.",
		}, []string{"name", "status", "type"}),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.last, s.total)
	s.metrics = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return s
}

// Metrics serves the result of each check of a whole, with the path of the whole as its type.
func (s *Server) Metrics(w http.ResponseWriter, r *http.Request) { s.metrics.ServeHTTP(w, r) }

// record notes the result of a check.
func (s *Server) record(kind, name string, err error) {
	status, value := "success", 1.0
	if err != nil {
		status, value = "error", 0
	}
	s.last.WithLabelValues(name, kind).Set(value)
	s.total.WithLabelValues(name, status, kind).Inc()
}
