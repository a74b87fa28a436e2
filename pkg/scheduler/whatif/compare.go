package whatif

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/scheduler"
	"k8s.io/apimachinery/pkg/types"
)

// Metric is a figure of a run.
type Metric struct {
	Name, Unit string
	Of         func(r *Result) float64
}

// Metrics are the figures of a run.
var Metrics = []Metric{
	{"placed", "pods", func(r *Result) float64 { return float64(r.Placed) }},
	{"pending", "pods", func(r *Result) float64 { return float64(r.Pending) }},
	{"preemptions", "pods", func(r *Result) float64 { return float64(r.Preemptions) }},
	{"cpu", "%", func(r *Result) float64 { return 100 * r.CPU }},
	{"memory", "%", func(r *Result) float64 { return 100 * r.Memory }},
	{"used-nodes", "nodes", func(r *Result) float64 { return float64(r.UsedNodes) }},
	{"imbalance-mean", "%", func(r *Result) float64 { return 100 * r.ImbalanceMean }},
	{"imbalance-stddev", "%", func(r *Result) float64 { return 100 * r.ImbalanceStddev }},
	{"throughput", "pods/s", func(r *Result) float64 { return r.Throughput }},
}

// Result are the figures of one run. A node's load is the greater of the requested parts of its CPU and memory.
type Result struct {
	Config string `json:"config"`
	Seed   int    `json:"seed"`
	// Placed and Pending are the pods of the workloads, and those that ran before and were evicted.
	Placed      int `json:"placed"`
	Pending     int `json:"pending"`
	Preemptions int `json:"preemptions"` // pods that were evicted
	// CPU and Memory are the requested parts of all nodes' allocatable amounts, from 0 to 1.
	CPU       float64 `json:"cpu"`
	Memory    float64 `json:"memory"`
	UsedNodes int     `json:"usedNodes"` // with pods
	// ImbalanceMean and ImbalanceStddev are how far the nodes' loads are from their mean: on average, and the standard deviation.
	ImbalanceMean   float64 `json:"imbalanceMean"`
	ImbalanceStddev float64 `json:"imbalanceStddev"`
	Throughput      float64 `json:"throughput"` // pods per second of the engine
}

// Compare runs the workloads under a configuration, once for each seed from 1 to seeds. The seed gives the order in which the pods arrive, one after the other, and
// draws among equally good nodes. Pods that find no node, and those that are evicted, are tried again after the last arrival. now measures the throughput.
func Compare(ctx context.Context, name string, q scheduler.Simulation, workloads []Workload, seeds int, now func() time.Time) ([]*Result, error) {
	var out []*Result
	for seed := 1; seed <= seeds; seed++ {
		r, err := once(ctx, q, workloads, uint64(seed), now)
		if err != nil {
			return nil, err
		}
		r.Config, r.Seed = name, seed
		out = append(out, r)
	}
	return out, nil
}

func once(ctx context.Context, q scheduler.Simulation, workloads []Workload, seed uint64, now func() time.Time) (*Result, error) {
	box, err := scheduler.NewSandbox(ctx, q, seed)
	if err != nil {
		return nil, err
	}
	defer box.Close(ctx)
	pods := arrivals(workloads)
	shuffle(pods, clock.NewSource(seed))
	r := &Result{}
	ran := map[types.UID]bool{}
	for _, pod := range q.Pods {
		ran[pod.UID] = true
	}
	began := now()
	again, err := r.place(ctx, box, pods, ran)
	if err != nil {
		return nil, err
	}
	if took := now().Sub(began); took > 0 {
		r.Throughput = float64(len(pods)) / took.Seconds()
	}
	slices.SortStableFunc(again, func(a, b arrival) int { return int(int64(priorityOf(b)) - int64(priorityOf(a))) })
	if again, err = r.place(ctx, box, again, ran); err != nil {
		return nil, err
	}
	r.Pending = len(again)
	r.measure(box.Loads(), q)
	return r, nil
}

func shuffle(pods []arrival, source *clock.Source) {
	for i := len(pods) - 1; i > 0; i-- {
		j := source.IntN(i + 1)
		pods[i], pods[j] = pods[j], pods[i]
	}
}

// place places pods, and returns those that found no node or were evicted. ran are the pods that ran before.
func (r *Result) place(ctx context.Context, box *scheduler.Sandbox, pods []arrival, ran map[types.UID]bool) (left []arrival, err error) {
	for _, a := range pods {
		got, err := box.Place(ctx, a.pod)
		if err != nil {
			return nil, err
		}
		if got.Node == "" {
			left = append(left, a)
		} else {
			r.Placed++
		}
		for _, v := range got.Evicted {
			r.Preemptions++
			again := v.DeepCopy()
			again.UID, again.Spec.NodeName, again.Status.NominatedNodeName = "", "", ""
			left = append(left, arrival{pod: again})
			if !ran[v.UID] {
				r.Placed--
			}
		}
	}
	return left, nil
}

// measure sets the figures of the nodes. Nodes' shares of all resources are by their allocatable amounts.
func (r *Result) measure(loads []scheduler.NodeLoad, q scheduler.Simulation) {
	if len(loads) == 0 {
		return
	}
	cpus, memories := map[string]float64{}, map[string]float64{}
	var allCPU, allMemory, mean float64
	for _, n := range q.Nodes {
		cpus[n.Name], memories[n.Name] = n.Status.Allocatable.Cpu().AsApproximateFloat64(), n.Status.Allocatable.Memory().AsApproximateFloat64()
		allCPU += cpus[n.Name]
		allMemory += memories[n.Name]
	}
	for _, l := range loads {
		r.CPU += l.CPU * cpus[l.Node] / max(allCPU, 1e-9)
		r.Memory += l.Memory * memories[l.Node] / max(allMemory, 1e-9)
		mean += max(l.CPU, l.Memory) / float64(len(loads))
		if l.Pods > 0 {
			r.UsedNodes++
		}
	}
	var squares float64
	for _, l := range loads {
		off := max(l.CPU, l.Memory) - mean
		r.ImbalanceMean += math.Abs(off) / float64(len(loads))
		squares += off * off / float64(len(loads))
	}
	r.ImbalanceStddev = math.Sqrt(squares)
}

// Summary is the mean of a metric over the runs of a configuration, and half of its 95 % confidence interval.
type Summary struct{ Mean, Confidence float64 }

// students are the quantiles 0.975 of Student's t distribution, from one degree of freedom on.
var students = [...]float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042}

// Summarise returns the summary of a metric. The confidence of a single run is 0.
func Summarise(results []*Result, m Metric) Summary {
	n := float64(len(results))
	if n == 0 {
		return Summary{}
	}
	var s Summary
	for _, r := range results {
		s.Mean += m.Of(r) / n
	}
	if n == 1 {
		return s
	}
	var squares float64
	for _, r := range results {
		squares += (m.Of(r) - s.Mean) * (m.Of(r) - s.Mean)
	}
	t := 1.96
	if int(n)-2 < len(students) {
		t = students[int(n)-2]
	}
	s.Confidence = t * math.Sqrt(squares/(n-1)/n)
	return s
}
