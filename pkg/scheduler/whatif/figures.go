package whatif

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// Metric is a figure of a run.
type Metric struct {
	Name, Unit string
	Of         func(r *Result) float64
}

// Decimals returns how many decimals of the metric a table shows: an attempt may take a millisecond.
func (m Metric) Decimals() int {
	if m.Unit == "s" {
		return 3
	}
	return 1
}

// Metrics are the figures of a run that every run has.
var Metrics = []Metric{
	{"placed", "pods", func(r *Result) float64 { return float64(r.Placed) }},
	{"pending", "pods", func(r *Result) float64 { return float64(r.Pending) }},
	{"preemptions", "pods", func(r *Result) float64 { return float64(r.Preemptions) }},
	{"wait", "s", func(r *Result) float64 { return r.Wait }},
	{"wait-p99", "s", func(r *Result) float64 { return r.WaitP99 }},
	{"cpu", "%", func(r *Result) float64 { return 100 * r.CPU }},
	{"memory", "%", func(r *Result) float64 { return 100 * r.Memory }},
	{"fragmentation", "%", func(r *Result) float64 { return 100 * r.Fragmentation }},
	{"used-nodes", "nodes", func(r *Result) float64 { return r.UsedNodes }},
	{"imbalance-mean", "%", func(r *Result) float64 { return 100 * r.ImbalanceMean }},
	{"imbalance-stddev", "%", func(r *Result) float64 { return 100 * r.ImbalanceStddev }},
	{"throughput", "pods/s", func(r *Result) float64 { return r.Throughput }},
}

// MetricsOf returns Metrics, those of gangs if the runs have any, and a metric for each extended resource that nodes of the runs have.
func MetricsOf(all [][]*Result) []Metric {
	out := slices.Clone(Metrics)
	if HaveGangs(all) {
		at := slices.IndexFunc(out, func(m Metric) bool { return m.Name == "cpu" })
		out = slices.Insert(out, at, gangMetrics()...)
	}
	for _, name := range ExtendedOf(all) {
		at := slices.IndexFunc(out, func(m Metric) bool { return m.Name == "fragmentation" })
		out = slices.Insert(out, at, Metric{name, "%", func(r *Result) float64 { return 100 * r.Extended[name] }})
	}
	return out
}

// ExtendedOf returns the names of the extended resources that nodes of the runs have.
func ExtendedOf(all [][]*Result) []string {
	names := map[string]bool{}
	for _, r := range slices.Concat(all...) {
		for name := range r.Extended {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// State is what the nodes of a cluster look like. Parts are from 0 to 1. A node's load is the greater of the requested parts of its CPU and memory.
type State struct {
	// CPU, Memory and Extended are the requested parts of all nodes' allocatable amounts.
	CPU      float64            `json:"cpu"`
	Memory   float64            `json:"memory"`
	Extended map[string]float64 `json:"extended,omitempty"`
	// Fragmentation is the part of the free resources on nodes without room for a pod of the workload, on average over its pods.
	Fragmentation float64 `json:"fragmentation"`
	UsedNodes     float64 `json:"usedNodes"` // with pods
	// ImbalanceMean and ImbalanceStddev are how far the nodes' loads are from their mean: on average, and the standard deviation.
	ImbalanceMean   float64 `json:"imbalanceMean"`
	ImbalanceStddev float64 `json:"imbalanceStddev"`
}

// Result are the figures of one run. State is that at its end for a comparison, and the mean over virtual time for a replay.
type Result struct {
	Config   string `json:"config"`
	Workload string `json:"workload,omitempty"`
	Seed     int    `json:"seed"`
	// Placed and Pending are the pods with and without a node at the end, or when they left. Pods that ran before count once they are evicted.
	Placed      int `json:"placed"`
	Pending     int `json:"pending"`
	Preemptions int `json:"preemptions"` // pods that were evicted
	// Wait and WaitP99 are the virtual time, in seconds, from a pod's arrival to its binding: the mean and the 99th percentile of the pods that were bound.
	Wait    float64      `json:"wait"`
	WaitP99 float64      `json:"waitP99"`
	Gangs   *GangFigures `json:"gangs,omitempty"` // nil: there were none
	State
	Throughput float64 `json:"throughput"` // pods per second of the engine
	// Stopped is why a replay ended before the trace; "": it did not.
	Stopped string   `json:"stopped,omitempty"`
	Samples []Sample `json:"samples,omitempty"`
}

// Label names the configuration of the run, and its workload if it has a name.
func (r *Result) Label() string { return strings.TrimSpace(r.Workload + " " + r.Config) }

// Sample is the state at a moment of a replay.
type Sample struct {
	Time        float64 `json:"time"` // seconds of virtual time since the begin
	at          time.Duration
	Running     int `json:"running"`
	Pending     int `json:"pending"`
	Preemptions int `json:"preemptions"` // so far
	// GangsRunning and GangsPending are the gangs with pods, of which as many as they need are bound, or not.
	GangsRunning int `json:"gangsRunning,omitempty"`
	GangsPending int `json:"gangsPending,omitempty"`
	State
}

// maxSamples bounds the samples of a run.
const maxSamples = 400

// sampleUntil takes the samples that are due before to. The cluster does not change until then.
func (p *Player) sampleUntil(to time.Time) {
	var now Sample
	for made := false; p.sampled.Add(p.Interval).Before(to); made = true {
		if !made {
			now = p.look()
		}
		p.sampled = p.sampled.Add(p.Interval)
		now.at = p.sampled.Sub(p.began)
		p.keep(now)
	}
}

// sample takes a sample now.
func (p *Player) sample() { p.keep(p.look()) }

// keep keeps a sample, instead of an earlier one of the same time. If there are too many, it drops every second one and doubles the interval.
func (p *Player) keep(s Sample) {
	s.Time = s.at.Seconds()
	if last := len(p.samples) - 1; last >= 0 && p.samples[last].at == s.at {
		p.samples[last] = s
		return
	}
	p.samples = append(p.samples, s)
	if len(p.samples) <= maxSamples {
		return
	}
	kept := p.samples[:0]
	for i, s := range p.samples {
		if i%2 == 1 {
			kept = append(kept, s)
		}
	}
	p.samples = kept
	p.Interval *= 2
}

func (p *Player) look() Sample {
	running, pending := p.gangs.counts()
	return Sample{at: p.Elapsed(), Running: len(p.pods) - p.unbound, Pending: p.unbound, Preemptions: p.preemptions, GangsRunning: running, GangsPending: pending,
		State: stateOf(p.box.NodeInfos(), &p.shapes)}
}

// average sets the State to the mean over the samples for which counts returns true, weighted by the time since the sample before.
func (r *Result) average(samples []Sample, counts func(at time.Duration) bool) {
	var weights, before float64
	for _, s := range samples {
		weight := s.Time - before
		before = s.Time
		if !counts(s.at) {
			continue
		}
		weights += weight
		r.CPU += weight * s.CPU
		r.Memory += weight * s.Memory
		r.Fragmentation += weight * s.Fragmentation
		r.UsedNodes += weight * s.UsedNodes
		r.ImbalanceMean += weight * s.ImbalanceMean
		r.ImbalanceStddev += weight * s.ImbalanceStddev
		for name, part := range s.Extended {
			if r.Extended == nil {
				r.Extended = map[string]float64{}
			}
			r.Extended[name] += weight * part
		}
	}
	if weights == 0 {
		return
	}
	for _, f := range []*float64{&r.CPU, &r.Memory, &r.Fragmentation, &r.UsedNodes, &r.ImbalanceMean, &r.ImbalanceStddev} {
		*f /= weights
	}
	for name := range r.Extended {
		r.Extended[name] /= weights
	}
}

// stateOf returns the state of the nodes. pods are those of the workload.
func stateOf(nodes []framework.NodeInfo, pods *shapes) State {
	var s State
	if len(nodes) == 0 {
		return s
	}
	t := tableOf(nodes, pods)
	for i, name := range t.names {
		switch {
		case i == 0:
			s.CPU = ratio(t.requested[i], t.allocatable[i])
		case i == 1:
			s.Memory = ratio(t.requested[i], t.allocatable[i])
		case strings.Contains(name, "/") && t.allocatable[i] > 0:
			if s.Extended == nil {
				s.Extended = map[string]float64{}
			}
			s.Extended[name] = ratio(t.requested[i], t.allocatable[i])
		}
	}
	count := float64(len(nodes))
	mean := 0.0
	for _, n := range t.nodes {
		mean += n.load / count
		if n.pods > 0 {
			s.UsedNodes++
		}
	}
	var squares float64
	for _, n := range t.nodes {
		s.ImbalanceMean += math.Abs(n.load-mean) / count
		squares += (n.load - mean) * (n.load - mean) / count
	}
	s.ImbalanceStddev = math.Sqrt(squares)
	s.Fragmentation = t.fragmentation(pods)
	return s
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// table has the amounts of the resources of all nodes. CPU is in millicores, others are in their base unit.
type table struct {
	names                        []string // of the columns: CPU, memory, and the others in alphabetical order
	nodes                        []nodeRow
	requested, allocatable, free []float64 // the sums of all nodes
}

type nodeRow struct {
	free []float64
	load float64
	pods int
	full bool // no other pod may run on the node
}

const (
	cpu    = string(corev1.ResourceCPU)
	memory = string(corev1.ResourceMemory)
)

// tableOf returns the table of the resources that nodes have or pods request.
func tableOf(nodes []framework.NodeInfo, pods *shapes) table {
	others := map[string]bool{}
	for _, n := range nodes {
		for name := range n.GetAllocatable().GetScalarResources() {
			others[string(name)] = true
		}
	}
	for name := range pods.others {
		others[name] = true
	}
	t := table{names: append([]string{cpu, memory}, slices.Sorted(maps.Keys(others))...)}
	columns := len(t.names)
	t.requested, t.allocatable, t.free = make([]float64, columns), make([]float64, columns), make([]float64, columns)
	requested, allocatable := make([]float64, columns), make([]float64, columns)
	all := make([]float64, len(nodes)*columns)
	for i, n := range nodes {
		t.fill(requested, n.GetRequested())
		t.fill(allocatable, n.GetAllocatable())
		row := nodeRow{free: all[i*columns : (i+1)*columns], pods: len(n.GetPods()), full: len(n.GetPods()) >= n.GetAllocatable().GetAllowedPodNumber()}
		for c := range t.names {
			row.free[c] = max(0, allocatable[c]-requested[c])
			t.requested[c] += min(requested[c], allocatable[c])
			t.allocatable[c] += allocatable[c]
			t.free[c] += row.free[c]
		}
		row.load = max(ratio(requested[0], allocatable[0]), ratio(requested[1], allocatable[1]))
		t.nodes = append(t.nodes, row)
	}
	return t
}

// fill sets a row to the amounts of r.
func (t *table) fill(row []float64, r framework.Resource) {
	row[0], row[1] = float64(r.GetMilliCPU()), float64(r.GetMemory())
	scalars := r.GetScalarResources()
	for c, name := range t.names[2:] {
		row[c+2] = float64(scalars[corev1.ResourceName(name)])
	}
}

// shapes are the different requests of a workload's pods, with the number of pods.
type shapes struct {
	list   []shape
	index  map[string]int
	others map[string]bool // the resources besides CPU and memory
	pods   float64
}

type shape struct {
	requests framework.Resource
	pods     float64
}

func (s *shapes) add(pod *corev1.Pod) {
	r := scheduler.RequestsOf(pod)
	key := fmt.Sprint(r.GetMilliCPU(), r.GetMemory(), r.GetScalarResources()) // fmt sorts the keys
	if s.index == nil {
		s.index, s.others = map[string]int{}, map[string]bool{}
	}
	i, ok := s.index[key]
	if !ok {
		i = len(s.list)
		s.index[key] = i
		s.list = append(s.list, shape{requests: r})
		for name := range r.GetScalarResources() {
			s.others[string(name)] = true
		}
	}
	s.list[i].pods++
	s.pods++
}

// fragmentation returns the part of the free resources that are on nodes without room for a pod. For one pod it is the mean over the resources that it
// requests, and the result is the mean over all pods.
func (t *table) fragmentation(pods *shapes) float64 {
	out, requests := 0.0, make([]float64, len(t.names))
	for _, s := range pods.list {
		t.fill(requests, s.requests)
		out += s.pods / pods.pods * t.fragmented(requests)
	}
	return out
}

// fragmented is the fragmentation for one pod.
func (t *table) fragmented(requests []float64) float64 {
	lost := make([]float64, len(requests))
	for i := range t.nodes {
		if n := &t.nodes[i]; !n.fits(requests) {
			for c, v := range n.free {
				lost[c] += v
			}
		}
	}
	sum, count := 0.0, 0.0
	for c, v := range requests {
		if v > 0 && t.free[c] > 0 {
			sum += lost[c] / t.free[c]
			count++
		}
	}
	return ratio(sum, count)
}

func (n *nodeRow) fits(requests []float64) bool {
	if n.full {
		return false
	}
	for c, v := range requests {
		if v > n.free[c] {
			return false
		}
	}
	return true
}
