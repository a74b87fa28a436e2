package batch

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// TestBatches: which changes sync a Job at once, and which after a second.
func TestBatches(t *testing.T) {
	clk := testclock.NewFakeClock(noon)
	b := newBatches(clk)
	caches := client.NewCaches(nil, clock.Real())
	pods, jobs := caches.Pods(), client.CacheOf[*batchv1.Job](caches, jobsResource)
	synced := make(chan string, 10)
	enqueue := func(key objects.Key, _ uint64) { synced <- key.Name }
	b.pods(pods)(t.Context(), enqueue)
	b.jobs(jobs)(t.Context(), enqueue)

	revision := 0
	put := func(name, owner string, phase corev1.PodPhase) {
		revision++
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: string(rune('0' + revision))}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: owner, UID: "uid-of-j", Controller: new(true)}}
		}
		p.Status.Phase = phase
		pods.Put(p)
	}
	expect := func(what string, want int) {
		t.Helper()
		if len(synced) != want {
			t.Errorf("%s: synced %d times, want %d", what, len(synced), want)
		}
		for len(synced) > 0 {
			if name := <-synced; name != "j" {
				t.Errorf("%s: synced %s", what, name)
			}
		}
	}
	second := func(what string, changes int) {
		t.Helper()
		clk.Step(batchPeriod)
		for range changes {
			if name := <-synced; name != "j" { // the clock calls in a goroutine
				t.Errorf("%s: synced %s", what, name)
			}
		}
	}
	put("other", "", corev1.PodRunning)
	expect("a pod of no Job", 0)
	put("a", "j", corev1.PodPending)
	put("b", "j", corev1.PodPending)
	expect("new pods", 0)
	second("new pods", 2)
	put("a", "j", corev1.PodSucceeded)
	expect("one of two ends", 0)
	put("b", "j", corev1.PodFailed)
	expect("the other ends", 1)
	second("one of two has ended", 1)
	put("c", "j", corev1.PodRunning)
	second("another pod", 1)
	p, _ := pods.Get(objects.Key{Namespace: "ns", Name: "c"})
	pods.Drop(p)
	expect("the last unfinished pod is gone", 1)

	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "j", Generation: 1, ResourceVersion: "1"}}
	jobs.Put(j)
	expect("a new Job", 1)
	j = j.DeepCopy()
	j.ResourceVersion, j.Status.Active = "2", 1
	jobs.Put(j)
	expect("another status", 0)
	second("another status", 1)
	j = j.DeepCopy()
	j.ResourceVersion, j.Generation = "3", 2
	jobs.Put(j)
	expect("another spec", 1)
	jobs.Drop(j)
	expect("deleted", 1)
	if len(b.unfinished)+len(b.waiting) > 0 {
		t.Errorf("left: %v %v", b.unfinished, b.waiting)
	}
}
