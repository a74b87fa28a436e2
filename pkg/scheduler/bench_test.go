package scheduler_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

func benchNode(i int) *corev1.Node {
	amounts := corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("110")}
	name := fmt.Sprintf("node-%04d", i)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("z%d", i%3)}},
		Status:     corev1.NodeStatus{Allocatable: amounts, Capacity: amounts},
	}
}

func benchPod(i int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("pod-%06d", i), UID: types.UID(fmt.Sprintf("uid-%06d", i)), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{SchedulerName: corev1.DefaultSchedulerName, Containers: []corev1.Container{{Name: "c", Image: "pause", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("500Mi")}}}}},
	}
}

// BenchmarkSchedule schedules equal pods without the API. BenchmarkCluster in package schedplugins includes the API.
func BenchmarkSchedule(b *testing.B) {
	spread := func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 5, TopologyKey: corev1.LabelTopologyZone,
			WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	for _, c := range []struct {
		name   string
		nodes  int
		forget bool
		change func(*corev1.Pod)
	}{
		{"1000Nodes", 1000, false, nil},
		{"5000Nodes", 5000, false, nil},
		{"1000NodesForgetful", 1000, true, nil},
		{"1000NodesSpread", 1000, false, spread},
		{"1000NodesAntiAffinity", 1000, false, nil},
		{"1000NodesReplicas", 1000, false, func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			bench := scheduler.NewBench(b, schedplugins.Registry, nil, 1, c.forget, set)
			for i := range c.nodes {
				bench.SetNode(benchNode(i))
			}
			pods := make([]*corev1.Pod, b.N)
			for i := range pods {
				pods[i] = benchPod(i)
				if c.change != nil {
					c.change(pods[i])
				}
				if c.name == "1000NodesAntiAffinity" {
					group := map[string]string{"group": fmt.Sprint(i / 200)}
					pods[i].Labels = group
					pods[i].Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
						{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: group}}}}}
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			began := cpuTime(b)
			for _, p := range pods {
				bench.Schedule(p)
			}
			b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/float64(b.N), "cpu-µs/pod")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pods/s")
		})
	}
}

// BenchmarkScale schedules equal pods, without the API, in clusters of 100 to 50,000 nodes, of which the largest also run
// 500,000 pods. cpu-µs/pod is the processor time, which other work on the machine does not change.
func BenchmarkScale(b *testing.B) {
	for _, c := range []struct{ nodes, running int }{{100, 0}, {1000, 0}, {5000, 0}, {50000, 0}, {50000, 50000}, {50000, 500000}} {
		b.Run(fmt.Sprintf("%dNodes%dRunning", c.nodes, c.running), func(b *testing.B) {
			bench := scheduler.NewBench(b, schedplugins.Registry, nil, 1, false)
			for i := range c.nodes {
				bench.SetNode(benchNode(i))
			}
			for i := range c.running {
				bench.Run(benchPod(1e6+i), fmt.Sprintf("node-%04d", i%c.nodes))
			}
			bench.Schedule(benchPod(1e7)) // filters and scores all nodes
			pods := make([]*corev1.Pod, b.N)
			for i := range pods {
				pods[i] = benchPod(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			began := cpuTime(b)
			for _, p := range pods {
				bench.Schedule(p)
			}
			b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/float64(b.N), "cpu-µs/pod")
		})
	}
}

// cpuTime returns the processor time of this process so far.
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
