package httpapi

import (
	"log/slog"
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the metrics of HTTP requests.
type metrics struct {
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	running  *prometheus.GaugeVec
	handler  http.Handler
}

func newMetrics(registry *prometheus.Registry) metrics {
	if registry == nil {
		registry = prometheus.NewRegistry()
		registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	m := metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "minikctl_apiserver_requests_total", Help: "Requests that were served over HTTP.",
		}, []string{"verb", "resource", "code"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "minikctl_apiserver_request_duration_seconds", Help: "How long requests took that are not long-running.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"verb", "resource"}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "minikctl_apiserver_requests_running", Help: "Requests that are being served.",
		}, []string{"verb"}),
		handler: promhttp.HandlerFor(registry, promhttp.HandlerOpts{}),
	}
	registry.MustRegister(m.requests, m.took, m.running)
	return m
}

// observe counts and times requests. Unknown resources share one label value, so that clients cannot add label values.
func (s *Handler) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		verb, resource := c.address.verb, "none"
		if c.address.resourceful {
			resource = "unknown"
			if _, ok := s.config.Rows.Table().Resources.Find(c.address.gvr()); ok {
				resource = c.address.resource
			}
		}
		if verb == "" || !c.address.resourceful && verbOf[r.Method] == "" {
			verb = "other"
		}
		running := s.metrics.running.WithLabelValues(verb)
		running.Inc()
		defer running.Dec()
		rec := &recorder{ResponseWriter: w}
		next.ServeHTTP(rec, r)
		slog.DebugContext(r.Context(), "request", "method", r.Method, "path", r.URL.Path, "code", rec.code, "took", s.machine.Since(c.began))
		s.metrics.requests.WithLabelValues(verb, resource, strconv.Itoa(max(rec.code, http.StatusOK))).Inc()
		if !c.address.longRunning(r.URL) {
			s.metrics.took.WithLabelValues(verb, resource).Observe(s.machine.Since(c.began).Seconds())
		}
	})
}

// forget drops the metrics of a resource that is no longer served, so that metrics of deleted definitions do not
// accumulate.
func (m metrics) forget(resource string) {
	m.requests.DeletePartialMatch(prometheus.Labels{"resource": resource})
	m.took.DeletePartialMatch(prometheus.Labels{"resource": resource})
}

// recorder records the status code of a response.
type recorder struct {
	http.ResponseWriter
	code int
}

func (w *recorder) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
