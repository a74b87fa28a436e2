package apiserver_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// BenchmarkRetained creates and deletes 1,000 pods, twelve times, with the bindings, status updates and Events that the
// other components write for them. It reports the memory of the process directly afterwards and after two idle minutes.
// The resident set is that of the whole process: run one store at a time with -benchtime 1x.
func BenchmarkRetained(b *testing.B) {
	b.Run("memory", func(b *testing.B) { benchmarkRetained(b, memory.New()) })
	b.Run("badger", func(b *testing.B) {
		s, err := badger.Open(badger.Config{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		benchmarkRetained(b, s)
	})
}

func benchmarkRetained(b *testing.B, s store.Store) {
	const cycles, pods, idle = 12, 1000, 2 * time.Minute
	clk := testclock.NewFakeClock(time.Now())
	e := apiservertest.New(b, func(cfg *apiserver.Config) { cfg.Store, cfg.Clock = s, clk })
	c := e.Client("bench")
	ctx := testContext(b)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "default"}}
	if _, err := c.Create(ctx, client.Target{Resource: client.ServiceAccounts, Namespace: "default"}, account, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	for range 3 { // like the controllers, the scheduler and a kubelet
		go func() {
			for range c.Watch(watching, client.Target{Resource: client.Pods}, metav1.ListOptions{ResourceVersion: "0"}) {
			}
		}()
	}
	for b.Loop() {
		for cycle := range cycles {
			churn(ctx, b, c, cycle, pods)
		}
	}
	after, _ := memoryUse(b)
	for range int(idle / (10 * time.Second)) {
		clk.Step(10 * time.Second)
		time.Sleep(50 * time.Millisecond) // lets the loops run that free memory
	}
	live, rss := memoryUse(b)
	b.ReportMetric(after, "live-MiB-after")
	b.ReportMetric(live, "live-MiB-idle")
	b.ReportMetric(rss, "rss-MiB-idle")
	if file := os.Getenv("HEAP_PROFILE"); file != "" {
		f, err := os.Create(file)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		if err := pprof.WriteHeapProfile(f); err != nil {
			b.Fatal(err)
		}
	}
}

// churn creates, runs and deletes pods, 16 at a time.
func churn(ctx context.Context, b *testing.B, c client.Client, cycle, pods int) {
	b.Helper()
	var workers sync.WaitGroup
	next := make(chan int, pods)
	for i := range pods {
		next <- i
	}
	close(next)
	for range 16 {
		workers.Go(func() {
			for i := range next {
				if err := live(ctx, c, fmt.Sprintf("pod-%d-%d", cycle, i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
}

// live creates, binds, starts, finishes and deletes a pod, with an Event at each step.
func live(ctx context.Context, c client.Client, name string) error {
	target := client.Target{Resource: client.Pods, Namespace: "default", Name: name}
	pod := benchPod(name)
	pod.Spec.NodeName = "node-1"
	obj, err := c.Create(ctx, client.Target{Resource: client.Pods, Namespace: "default"}, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for step, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded} {
		pod = obj.(*corev1.Pod).DeepCopy()
		pod.Status.Phase, pod.Status.Message = phase, fmt.Sprint("step ", step)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, Reason: fmt.Sprint(step)}}
		if obj, err = c.Update(ctx, target.Sub("status"), pod, metav1.UpdateOptions{}); err != nil {
			return err
		}
		event := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%d", name, step), Namespace: "default"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: name, UID: pod.UID},
			Reason:         "Step", Message: strings.Repeat("what happened ", 5), Type: "Normal", LastTimestamp: metav1.Now(), Count: 1,
		}
		if _, err := c.Create(ctx, client.Target{Resource: client.Events, Namespace: "default"}, event, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	now := int64(0)
	_, err = c.Delete(ctx, target, metav1.DeleteOptions{GracePeriodSeconds: &now})
	return err
}

// memoryUse returns the live heap and the resident set in MiB, after all garbage is freed.
func memoryUse(b *testing.B) (live, rss float64) {
	b.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Skip(err)
	}
	var size, resident int
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		b.Fatal(err)
	}
	return float64(m.HeapAlloc) / (1 << 20), float64(resident*os.Getpagesize()) / (1 << 20)
}
