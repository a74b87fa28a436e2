package whatif

import (
	"context"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// Compare runs the workloads under a configuration, once for each seed from 1 to seeds. The seed gives the order in which the pods arrive, one each
// arrivalInterval, and draws among equally good nodes. Pods that are evicted arrive again. now measures the throughput.
func Compare(ctx context.Context, name string, q scheduler.Simulation, workloads []Workload, seeds int, now func() time.Time) ([]*Result, error) {
	var out []*Result
	for seed := 1; seed <= seeds; seed++ {
		r, err := once(ctx, q, workloads, Options{Seed: uint64(seed), AttemptTime: DefaultAttemptTime, Now: now})
		if err != nil {
			return nil, err
		}
		r.Config, r.Seed = name, seed
		out = append(out, r)
	}
	return out, nil
}

const (
	arrivalInterval = 100 * time.Millisecond // of virtual time
	maxTail         = 10 * time.Minute       // of virtual time, after the last arrival: plugins that fail may keep pods in a backoff for ever
)

func once(ctx context.Context, q scheduler.Simulation, workloads []Workload, o Options) (*Result, error) {
	p, err := newPlayer(ctx, q, o)
	if err != nil {
		return nil, err
	}
	defer p.box.Close(ctx)
	pods := arrivals(workloads)
	shuffle(pods, clock.NewSource(o.Seed))
	for i, a := range pods {
		p.At(time.Duration(i)*arrivalInterval, func(ctx context.Context) error { return p.AddPod(ctx, arriving(a.pod)) })
	}
	p.Evicted = func(pod *corev1.Pod) {
		p.At(p.Elapsed(), func(ctx context.Context) error { return p.AddPod(ctx, again(pod)) })
	}
	if _, err := p.Run(ctx, never, time.Duration(len(pods))*arrivalInterval+maxTail); err != nil {
		return nil, err
	}
	r := p.result()
	r.State = p.look().State
	return r, nil
}

// arriving returns a copy of a pod with a scheduler.
func arriving(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	if pod.Spec.SchedulerName == "" {
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	}
	return pod
}

// again returns the pod that replaces an evicted one.
func again(pod *corev1.Pod) *corev1.Pod {
	pod = arriving(pod)
	pod.UID, pod.Spec.NodeName, pod.Status = "", "", corev1.PodStatus{}
	return pod
}

func shuffle(pods []arrival, source *clock.Source) {
	for i := len(pods) - 1; i > 0; i-- {
		j := source.IntN(i + 1)
		pods[i], pods[j] = pods[j], pods[i]
	}
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
