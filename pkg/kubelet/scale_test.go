package kubelet_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
)

// BenchmarkSimulatedPods measures how long it takes a pod that is bound to a simulated node to be Running, with 100
// nodes and ten pods on each.
func BenchmarkSimulatedPods(b *testing.B) {
	const nodes, each = 100, 10
	for b.Loop() {
		b.StopTimer()
		ctx, cancel := context.WithCancel(context.Background())
		env := apiservertest.New(b)
		api := env.Client("bench")
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := api.Create(ctx, client.Target{Resource: client.ServiceAccounts, Namespace: "default"}, account, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		caches := client.NewCaches(api, clock.Real())
		store, err := images.New(images.Config{})
		if err != nil {
			b.Fatal(err)
		}
		host, err := kubelet.NewHost(kubelet.HostConfig{Caches: caches, Images: store, Clock: clock.Real(), Source: clock.NewSource(1), Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		cluster := sim.NewCluster(clock.Real(), nil)
		var wg sync.WaitGroup
		run := func(f func(context.Context) error) {
			wg.Go(func() {
				if err := f(ctx); err != nil {
					b.Error(err)
				}
			})
		}
		var registered sync.WaitGroup
		registered.Add(nodes)
		caches.Nodes().Subscribe(func(ch client.Change[*corev1.Node]) {
			if ch.Added() {
				registered.Done()
			}
		})
		run(caches.Run)
		run(host.Run)
		for i := range nodes {
			k, err := kubelet.New(kubelet.Config{
				Node: kubelet.NodeConfig{Name: fmt.Sprintf("sim-%d", i), Tier: sim.Tier}, Host: host, Client: api, Runtime: cluster.Runtime(""),
			})
			if err != nil {
				b.Fatal(err)
			}
			run(k.Run)
		}
		registered.Wait()
		var running sync.WaitGroup
		running.Add(nodes * each)
		caches.Pods().Subscribe(func(ch client.Change[*corev1.Pod]) {
			if ch.New != nil && ch.New.Status.Phase == corev1.PodRunning && (ch.Old == nil || ch.Old.Status.Phase != corev1.PodRunning) {
				running.Done()
			}
		})
		b.StartTimer()
		var creators sync.WaitGroup
		for c := range 4 {
			creators.Go(func() {
				for i := c; i < nodes*each; i += 4 {
					pod := &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d", i), Namespace: "default"},
						Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("sim-%d", i%nodes), Containers: []corev1.Container{{Name: "c", Image: "x"}}},
					}
					if _, err := api.Create(ctx, client.Target{Resource: client.Pods, Namespace: "default"}, pod, metav1.CreateOptions{}); err != nil {
						b.Error(err)
					}
				}
			})
		}
		creators.Wait()
		running.Wait()
		b.StopTimer()
		cancel()
		wg.Wait()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*nodes*each), "µs/pod")
}
