package whatif

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// MaxFit bounds the copies of a pod that are counted.
const MaxFit = 10_000

// DryRun is where workloads would go.
type DryRun struct {
	Pods      []PodPlacement   `json:"pods"`
	Workloads []WorkloadResult `json:"workloads"`
}

// PodPlacement is where a pod would go.
type PodPlacement struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Workload  string   `json:"workload"`
	Node      string   `json:"node,omitempty"`
	Message   string   `json:"message,omitempty"` // why it finds no node
	Evicts    []string `json:"evicts,omitempty"`  // as namespace/name
}

// WorkloadResult are the numbers of a workload's pods.
type WorkloadResult struct {
	Name    string `json:"name"`
	Placed  int    `json:"placed"`
	Pending int    `json:"pending"`
	// More is how many more of its pods fit after all workloads are scheduled, at most MaxFit.
	More int `json:"more"`
}

// Simulation returns a simulation of the cluster.
func (c *Cluster) Simulation(registry scheduler.Registry, config *configv1.KubeSchedulerConfiguration) scheduler.Simulation {
	q := scheduler.Simulation{Registry: registry, Config: config, Nodes: c.Nodes, Pods: c.Pods, Namespaces: c.Namespaces, Budgets: c.Budgets, Selecting: c.Selecting, Objects: c.otherObjects()}
	if len(q.Objects[framework.PodGroup]) > 0 { // the cluster that has them has the gates on
		q.Features = gangFeatures
	}
	return q
}

// arrival is a pod that arrives.
type arrival struct {
	pod      *corev1.Pod
	workload int
}

func arrivals(workloads []Workload) []arrival {
	var out []arrival
	for i, w := range workloads {
		for _, pod := range w.Pods {
			out = append(out, arrival{pod, i})
		}
	}
	return out
}

func namesPodGroup(a arrival) bool {
	_, names := podref.PodGroup(a.pod)
	return names
}

func priorityOf(a arrival) int32 {
	if a.pod.Spec.Priority == nil {
		return 0
	}
	return *a.pod.Spec.Priority
}

// scheduleAll schedules pods in their order. minimums has the number of pods that groups need.
func scheduleAll(ctx context.Context, box *scheduler.Sandbox, labels labelReaders, pods []arrival, minimums map[group]int) ([]scheduler.ScheduleResult, error) {
	out := make([]scheduler.ScheduleResult, len(pods))
	done := map[group]bool{}
	for i, a := range pods {
		g, grouped := groupOf(a.pod)
		need, gang := minimums[g]
		switch {
		case !grouped || !gang || g.labelled && !labels.has(a.pod):
			got, err := box.Schedule(ctx, a.pod)
			if err != nil {
				return nil, err
			}
			out[i] = got
		case !done[g]:
			done[g] = true
			var members []*corev1.Pod
			var indexes []int
			for k, b := range pods {
				if of, ok := groupOf(b.pod); ok && of == g && (!g.labelled || labels.has(b.pod)) {
					members, indexes = append(members, b.pod), append(indexes, k)
				}
			}
			got, err := box.ScheduleGroup(ctx, members, need)
			if err != nil {
				return nil, err
			}
			for k, index := range indexes {
				out[index] = got[k]
			}
		}
	}
	return out, nil
}

// Run schedules all pods of the workloads, which arrive at the same time: those of higher priority first. The pods of a PodGroup that needs a
// number of them are scheduled together, when the first of them is due, or not at all. groups are those of the cluster.
func Run(ctx context.Context, q scheduler.Simulation, groups *Cluster, workloads []Workload, seed uint64) (*DryRun, error) {
	pods := arrivals(workloads)
	if slices.ContainsFunc(pods, namesPodGroup) { // it waits for a PodGroup that does not exist
		q.Features = gangFeatures
	}
	box, err := scheduler.NewSandbox(ctx, q, seed)
	if err != nil {
		return nil, err
	}
	defer box.Close(ctx)
	out := &DryRun{}
	for _, w := range workloads {
		out.Workloads = append(out.Workloads, WorkloadResult{Name: w.Name})
	}
	slices.SortStableFunc(pods, func(a, b arrival) int { return int(int64(priorityOf(b)) - int64(priorityOf(a))) })
	results, err := scheduleAll(ctx, box, newLabelReaders(q), pods, groups.minimums())
	if err != nil {
		return nil, err
	}
	for i, a := range pods {
		got := results[i]
		p := PodPlacement{Namespace: a.pod.Namespace, Name: a.pod.Name, Workload: workloads[a.workload].Name, Node: got.Node, Message: got.Message}
		for _, v := range got.Evicted {
			p.Evicts = append(p.Evicts, v.Namespace+"/"+v.Name)
		}
		out.Pods = append(out.Pods, p)
		if got.Node == "" {
			out.Workloads[a.workload].Pending++
		} else {
			out.Workloads[a.workload].Placed++
		}
	}
	for i, w := range workloads {
		if len(w.Pods) == 0 || out.Workloads[i].Pending > 0 {
			continue
		}
		at := len(w.Pods)
		if out.Workloads[i].More, err = box.Fit(ctx, MaxFit, func(all scheduler.SimulatedObjects) *corev1.Pod {
			pod, claims := w.more(at)
			at++
			for _, claim := range claims {
				if _, ok := all.Get(framework.PersistentVolumeClaim, objects.Key{Namespace: claim.Namespace, Name: claim.Name}); !ok {
					all.Put(framework.PersistentVolumeClaim, groups.complete(claim))
				}
			}
			return pod
		}); err != nil {
			return nil, err
		}
	}
	return out, nil
}
