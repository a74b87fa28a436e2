package verbs_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// owned returns a pod as a ReplicaSet creates it.
func owned() *corev1.Pod {
	p := newPod("")
	p.GenerateName = "web-"
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "uid", Controller: &yes, BlockOwnerDeletion: &yes}}
	return p
}

func BenchmarkCreatePod(b *testing.B) {
	b.Run("memory", func(b *testing.B) { createPods(b, memory.New()) })
	b.Run("badger", func(b *testing.B) { createPods(b, onDisk(b, b.TempDir())) })
}

func createPods(b *testing.B, st store.Store) {
	s := serve(b, st)
	if _, err := s.List(b.Context(), pods, metav1.ListOptions{}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Create(b.Context(), pods, owned(), metav1.CreateOptions{}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkPodStatus(b *testing.B) {
	s := serve(b, memory.New())
	p := create(b, s, pods, newPod("p"))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		next := p.DeepCopy()
		next.Status.Phase = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning}[i%2]
		out, err := s.Update(b.Context(), in(pods, "p").Sub("status"), next, metav1.UpdateOptions{})
		if err != nil {
			b.Fatal(err)
		}
		p = out.(*corev1.Pod)
	}
}

func fill(b *testing.B, s *server, n int) {
	for range n {
		create(b, s, pods, owned())
	}
}

func BenchmarkGetPod(b *testing.B) {
	s := serve(b, memory.New())
	fill(b, s, 1000)
	create(b, s, pods, newPod("p"))
	b.ReportAllocs()
	for b.Loop() {
		get[*corev1.Pod](b, s, in(pods, "p"))
	}
}

func BenchmarkList5000Pods(b *testing.B) {
	s := serve(b, memory.New())
	fill(b, s, 5000)
	b.ReportAllocs()
	for b.Loop() {
		if l, err := s.List(b.Context(), pods, metav1.ListOptions{}); err != nil || len(l.Items) != 5000 {
			b.Fatal(len(l.Items), err)
		}
	}
}

// BenchmarkWatch measures creates while a thousand nodes watch their own pods and ten watches see all pods.
func BenchmarkWatch(b *testing.B) {
	s := serve(b, memory.New())
	list, err := s.List(b.Context(), pods, metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	var seen atomic.Int64
	for i := range 1010 {
		opts := metav1.ListOptions{ResourceVersion: list.ResourceVersion}
		if i < 1000 {
			opts.FieldSelector = fmt.Sprint("spec.nodeName=node-", i)
		}
		go func() {
			for range s.Watch(ctx, client.Target{Resource: client.Pods}, opts) {
				seen.Add(1)
			}
		}()
	}
	b.ReportAllocs()
	b.SetParallelism(8)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Create(b.Context(), pods, owned(), metav1.CreateOptions{}); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(seen.Load())/float64(b.N), "events/op")
}
