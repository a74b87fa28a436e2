package scheduler

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// metrics are what the scheduler counts and times, in the names, labels and buckets of kube-scheduler. What only describes a state, such as the
// lengths of queues, is collected for each request (gauges.go). Its methods are safe for concurrent use, except eventTook.
type metrics struct {
	all []prometheus.Collector

	attempts        *prometheus.CounterVec
	attemptTook     *prometheus.HistogramVec
	algorithmTook   prometheus.Observer
	sli             *prometheus.HistogramVec
	attemptsOfPod   prometheus.Observer
	afterFlush      prometheus.Counter
	incoming        *prometheus.CounterVec
	events          *prometheus.HistogramVec
	eventsBy        map[framework.ClusterEvent]prometheus.Observer // of events; used by the loop only
	hints           *prometheus.HistogramVec
	points          *prometheus.HistogramVec
	plugins         *prometheus.HistogramVec
	evaluations     *prometheus.CounterVec
	permitWait      *prometheus.HistogramVec
	goroutines      *prometheus.GaugeVec
	preemptions     prometheus.Counter
	victims         prometheus.Observer
	evictions       *prometheus.CounterVec
	evictionsTook   *prometheus.HistogramVec
	groupAttempts   *prometheus.CounterVec
	groupTook       *prometheus.HistogramVec
	groupsAlgorithm prometheus.Observer
}

// newMetrics returns metrics that are zero. Those of PodGroups exist with their feature gate only.
func newMetrics(gates feature.Gates) *metrics {
	m := &metrics{eventsBy: map[framework.ClusterEvent]prometheus.Observer{}}
	attempt := prometheus.ExponentialBuckets(0.001, 2, 15)
	point := prometheus.ExponentialBuckets(0.0001, 2, 12)
	call := prometheus.ExponentialBuckets(0.00001, 1.5, 20)
	long := prometheus.ExponentialBuckets(0.01, 2, 20)
	m.attempts = m.counter("schedule_attempts_total", "[STABLE] Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, while 'error' means an internal scheduler problem.", "result", "profile")
	m.attemptTook = m.histogram("scheduling_attempt_duration_seconds", "[STABLE] Scheduling attempt latency in seconds (scheduling algorithm + binding)", attempt, "result", "profile")
	m.algorithmTook = m.histogram("scheduling_algorithm_duration_seconds", "[ALPHA] Scheduling algorithm latency in seconds", attempt).WithLabelValues()
	m.sli = m.histogram("pod_scheduling_sli_duration_seconds", "[BETA] E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve multiple scheduling attempts.", long, "attempts")
	m.attemptsOfPod = m.histogram("pod_scheduling_attempts", "[STABLE] Number of attempts to successfully schedule a pod.", prometheus.ExponentialBuckets(1, 2, 5)).WithLabelValues()
	m.afterFlush = m.counter("pod_scheduled_after_flush_total", "[ALPHA] Number of pods that were successfully scheduled after being flushed from unschedulablePods due to timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.").WithLabelValues()
	m.incoming = m.counter("queue_incoming_pods_total", "[STABLE] Number of pods added to scheduling queues by event and queue type.", "queue", "event")
	m.events = m.histogram("event_handling_duration_seconds", "[ALPHA] Event handling latency in seconds.", point, "event")
	m.hints = m.histogram("queueing_hint_execution_duration_seconds", "[ALPHA] Duration for running a queueing hint function of a plugin.", call, "plugin", "event", "hint")
	m.points = m.histogram("framework_extension_point_duration_seconds", "[STABLE] Latency for running all plugins of a specific extension point.", point, "extension_point", "status", "profile")
	m.plugins = m.histogram("plugin_execution_duration_seconds", "[ALPHA] Duration for running a plugin at a specific extension point.", call, "plugin", "extension_point", "status")
	m.evaluations = m.counter("plugin_evaluation_total", "[BETA] Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, Filter, PreScore, and Score).", "plugin", "extension_point", "profile")
	m.permitWait = m.histogram("permit_wait_duration_seconds", "[BETA] Duration of waiting on permit.", attempt, "result")
	m.goroutines = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "goroutines", Help: "[BETA] Number of running goroutines split by the work they do such as binding."}, []string{"operation"})
	m.all = append(m.all, m.goroutines)
	m.preemptions = m.counter("preemption_attempts_total", "[STABLE] Total preemption attempts in the cluster till now").WithLabelValues()
	m.victims = m.histogram("preemption_victims", "[STABLE] Number of selected preemption victims", prometheus.ExponentialBuckets(1, 2, 7)).WithLabelValues()
	m.evictions = m.counter("preemption_goroutines_execution_total", "[ALPHA] Number of preemption goroutines executed.", "result")
	m.evictionsTook = m.histogram("preemption_goroutines_duration_seconds", "[ALPHA] Duration in seconds for running goroutines for the preemption.", long, "result")
	if gates.GenericWorkload {
		m.groupAttempts = m.counter("podgroup_schedule_attempts_total", "[ALPHA] Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not be scheduled, while 'error' means an internal scheduler problem.", "result", "profile")
		m.groupTook = m.histogram("podgroup_scheduling_attempt_duration_seconds", "[ALPHA] Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)", attempt, "result", "profile")
		m.groupsAlgorithm = m.histogram("podgroup_scheduling_algorithm_duration_seconds", "[ALPHA] Pod group scheduling algorithm latency in seconds", attempt).WithLabelValues()
	}
	return m
}

// prefix is that of the names of all metrics.
const prefix = "scheduler_"

func (m *metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	m.all = append(m.all, v)
	return v
}

func (m *metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
	m.all = append(m.all, v)
	return v
}

// Results of attempts.
const (
	resultScheduled     = "scheduled"
	resultUnschedulable = "unschedulable"
	resultError         = "error"
)

// attempted records the end of an attempt to schedule a pod.
func (m *metrics) attempted(a *attempt, result string) {
	profile := a.info.pod.Spec.SchedulerName
	m.attempts.WithLabelValues(result, profile).Inc()
	m.attemptTook.WithLabelValues(result, profile).Observe(a.machine.Since(a.began).Seconds())
}

// scheduled records that a pod was bound, at a time of the cluster's clock.
func (m *metrics) scheduled(a *attempt, now time.Time) {
	m.attempted(a, resultScheduled)
	m.attemptsOfPod.Observe(float64(a.attempts))
	m.sli.WithLabelValues(attemptsLabel(a.attempts)).Observe(now.Sub(a.activated).Seconds())
	if a.flushed {
		m.afterFlush.Inc()
	}
}

// attemptsLabel returns the label value for a number of attempts, which is bounded.
func attemptsLabel(n int) string {
	if n >= 16 {
		return "16+"
	}
	return strconv.Itoa(n)
}

// group records the end of an attempt to schedule a PodGroup.
func (m *metrics) group(profile, result string, took time.Duration) {
	m.groupAttempts.WithLabelValues(result, profile).Inc()
	m.groupTook.WithLabelValues(result, profile).Observe(took.Seconds())
}

// enqueued records that a pod entered a queue because of an event.
func (m *metrics) enqueued(queue, event string) { m.incoming.WithLabelValues(queue, event).Inc() }

// eventTook returns the histogram of an event.
func (m *metrics) eventTook(of framework.ClusterEvent) prometheus.Observer {
	h := m.eventsBy[of]
	if h == nil {
		h = m.events.WithLabelValues(of.Label())
		m.eventsBy[of] = h
	}
	return h
}

// hinted records a call of a QueueingHint.
func (m *metrics) hinted(plugin, event string, hint framework.QueueingHint, err error, took time.Duration) {
	result := "QueueSkip"
	switch {
	case err != nil:
		result = "Error"
	case hint == framework.Queue:
		result = "Queue"
	}
	m.hints.WithLabelValues(plugin, event, result).Observe(took.Seconds())
}

// ran records that the plugins of an extension point have run.
func (m *metrics) ran(point string, status *framework.Status, profile string, took time.Duration) {
	m.points.WithLabelValues(point, status.Code().String(), profile).Observe(took.Seconds())
}

// called records one call of a plugin.
func (m *metrics) called(at *site, status *framework.Status, took time.Duration) {
	m.plugins.WithLabelValues(at.name, at.label(), status.Code().String()).Observe(took.Seconds())
}

// label returns the name of the site's extension point in metrics.
func (s *site) label() string {
	switch s.point {
	case "NormalizeScore":
		return "ScoreExtensionNormalize"
	case signPoint:
		return "Sign"
	}
	return s.point
}

// Extension points that several places run.
const (
	filterPoint = "Filter"
	scorePoint  = "Score"
	signPoint   = "SignPod" // in errors
)

// evaluationsOf returns the counter of a plugin's calls at an extension point, nil for points whose calls are not counted.
func (m *metrics) evaluationsOf(plugin, point, profile string) prometheus.Counter {
	switch point {
	case "PreFilter", filterPoint, "PreScore", scorePoint:
		return m.evaluations.WithLabelValues(plugin, point, profile)
	}
	return nil
}

// evicted records the end of the eviction of a pod's victims.
func (m *metrics) evicted(err error, took time.Duration) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.evictions.WithLabelValues(result).Inc()
	m.evictionsTook.WithLabelValues(result).Observe(took.Seconds())
}

// sampleEvery is the part of the attempts, 1/sampleEvery, whose calls of plugins are recorded one by one, as in kube-scheduler.
const sampleEvery = 10
