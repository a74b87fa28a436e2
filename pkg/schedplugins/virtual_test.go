package schedplugins

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// virtualCluster is a cluster on a manual clock: an API server and a scheduler that take turns, without controllers and kubelets. Between two calls of
// advance nothing happens, and the same seed gives the same run.
type virtualCluster struct {
	*cluster
	clock *clock.Manual
	seed  uint64
}

// virtualBegan is the time at which virtual clusters start.
var virtualBegan = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newVirtualCluster starts an API server. start starts the scheduler.
func newVirtualCluster(t testing.TB, seed uint64, options ...func(*apiserver.Config)) *virtualCluster {
	t.Helper()
	m := clock.NewManual(virtualBegan, clock.Real())
	m.TakeTurns()
	onClock := func(cfg *apiserver.Config) { cfg.Clock, cfg.Source = m, clock.NewSource(seed) }
	return &virtualCluster{cluster: newCluster(t, append(options, onClock)...), clock: m, seed: seed}
}

// start starts a scheduler, which stop or the end of the test ends, and waits until the cluster has settled.
func (v *virtualCluster) start(change func(*scheduler.Config)) (stop func()) {
	v.t.Helper()
	stop = v.startOn(v.clock, v.seed, change)
	v.advance(0)
	return stop
}

// advance advances the clock, and waits until the cluster has settled.
func (v *virtualCluster) advance(d time.Duration) {
	v.t.Helper()
	if _, err := v.clock.Advance(v.ctx, v.clock.Now().Add(d), 0); err != nil {
		v.t.Fatal(err)
	}
}

// allPods lists the pods of the namespace default by name.
func (v *virtualCluster) allPods() map[string]*corev1.Pod {
	v.t.Helper()
	list, err := v.client.List(v.ctx, client.Target{Resource: client.Pods, Namespace: "default"}, metav1.ListOptions{})
	if err != nil {
		v.t.Fatal(err)
	}
	out := map[string]*corev1.Pod{}
	for _, obj := range list.Items {
		out[obj.GetName()] = obj.(*corev1.Pod)
	}
	return out
}

// boundPods returns how many of the pods have a node.
func (v *virtualCluster) boundPods(names ...string) (n int) {
	v.t.Helper()
	pods := v.allPods()
	for _, name := range names {
		if p := pods[name]; p != nil && p.Spec.NodeName != "" {
			n++
		}
	}
	return n
}

// condition returns the message of a pod's condition PodScheduled.
func (v *virtualCluster) condition(pod string) string {
	v.t.Helper()
	for _, c := range v.allPods()[pod].Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Message
		}
	}
	return ""
}

// resize sets the CPUs of a node.
func (v *virtualCluster) resize(node, cpu string) {
	v.t.Helper()
	target := client.Target{Resource: client.Nodes, Name: node}
	obj, err := v.client.Get(v.ctx, target, metav1.GetOptions{})
	if err != nil {
		v.t.Fatal(err)
	}
	n := obj.(*corev1.Node).DeepCopy()
	for _, list := range []corev1.ResourceList{n.Status.Allocatable, n.Status.Capacity} {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if _, err := v.client.Update(v.ctx, target.Sub("status"), n, metav1.UpdateOptions{}); err != nil {
		v.t.Fatal(err)
	}
}

// deleteNow deletes an object at once.
func (v *virtualCluster) deleteNow(target client.Target) {
	v.t.Helper()
	if _, err := v.client.Delete(v.ctx, target, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		v.t.Fatal(err)
	}
}
