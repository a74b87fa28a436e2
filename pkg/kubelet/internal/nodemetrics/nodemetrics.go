// Package nodemetrics owns the metrics of a kubelet, in the names and labels of Kubernetes' kubelet. They are views of what the kubelet has
// measured: a collector is made for one request, so that no series outlives its container.
package nodemetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Samples is a collector of given metrics.
type Samples []prometheus.Metric

// Describe implements prometheus.Collector: the descriptions are those of the metrics.
func (Samples) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s Samples) Collect(out chan<- prometheus.Metric) {
	for _, m := range s {
		out <- m
	}
}

// family is a metric's description and type.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func gauge(name, help string, labels ...string) family {
	return family{prometheus.NewDesc(name, help, labels, nil), prometheus.GaugeValue}
}

func counter(name, help string, labels ...string) family {
	return family{prometheus.NewDesc(name, help, labels, nil), prometheus.CounterValue}
}

func (s *Samples) add(f family, value float64, labels ...string) {
	*s = append(*s, prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...))
}

// addAt adds a sample that was measured at a time.
func (s *Samples) addAt(at time.Time, f family, value float64, labels ...string) {
	*s = append(*s, prometheus.NewMetricWithTimestamp(at, prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)))
}

// seconds returns nanoseconds in seconds.
func seconds(nano uint64) float64 { return float64(nano) / float64(time.Second) }

// unixSeconds returns a time in seconds since 1970.
func unixSeconds(at time.Time) float64 { return float64(at.UnixNano()) / float64(time.Second) }
