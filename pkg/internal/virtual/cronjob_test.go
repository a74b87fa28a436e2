package virtual_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
)

var cronJobs = batchv1.SchemeGroupVersion.WithResource("cronjobs")

// minutely is a cluster with a CronJob that starts a Job every minute, and the Jobs and their pods that were created.
type minutely struct {
	*virtual.Cluster
	started map[string]int // Jobs by name
}

func startMinutely(t testing.TB, cfg virtual.Config) *minutely {
	cfg.Nodes = []string{"a"}
	c := &minutely{Cluster: virtual.Start(t, cfg), started: map[string]int{}}
	cj := &batchv1.CronJob{ObjectMeta: meta("c"), Spec: batchv1.CronJobSpec{
		Schedule: "* * * * *", TimeZone: new("Etc/UTC"), SuccessfulJobsHistoryLimit: new(int32(2)), FailedJobsHistoryLimit: new(int32(1)),
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "c"}}}}}},
	}}
	caches := client.NewCaches(c.Client, c.Clock)
	client.CacheOf[*batchv1.Job](caches, jobs).Subscribe(func(ch client.Change[*batchv1.Job]) {
		if ch.Added() {
			c.started[ch.New.Name]++
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- caches.Run(c.Context()) }()
	t.Cleanup(func() { <-ended })
	if err := caches.WaitSynced(c.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(c.Context(), client.Target{Resource: cronJobs, Namespace: "default"}, cj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// check fails the test unless a Job was started at each minute until now, and the history is within its limit.
func (c *minutely) check() {
	c.Helper()
	minutes := int((c.Clock.Since(virtual.Began) - time.Second) / time.Minute) // a start is up to 100 ms late, as in Kubernetes
	for i := 1; i <= minutes; i++ {
		name := fmt.Sprintf("c-%d", virtual.Began.Add(time.Duration(i)*time.Minute).Unix()/60)
		if c.started[name] != 1 {
			c.Errorf("Job %s, of minute %d, was started %d times", name, i, c.started[name])
		}
	}
	if len(c.started) != minutes {
		c.Errorf("%d Jobs in %d minutes", len(c.started), minutes)
	}
	for resource, limit := range map[client.Target]int{
		{Resource: jobs, Namespace: "default"}: 3, {Resource: client.Pods, Namespace: "default"}: 3, // two finished ones and that of this minute
		{Resource: client.Events, Namespace: "default"}: 60*10 + 20, // they expire after an hour
	} {
		got, err := c.List(c.Context(), resource, metav1.ListOptions{})
		if err != nil {
			c.Fatal(err)
		}
		if len(got.Items) > limit {
			c.Errorf("%d %s are left, the limit is %d", len(got.Items), resource.Resource.Resource, limit)
		}
	}
	got, err := c.Get(c.Context(), client.Target{Resource: cronJobs, Namespace: "default", Name: "c"}, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	if last := got.(*batchv1.CronJob).Status.LastSuccessfulTime; last == nil || c.Clock.Since(last.Time) > 2*time.Minute {
		c.Errorf("the last success was at %v, now it is %v", last, c.Clock.Now())
	}
}

// TestCronJobMissesNoMinute: a CronJob starts a Job every minute for some hours, and for 48 in a measurement, in which the components act at
// the same time, as they do without a seed.
func TestCronJobMissesNoMinute(t *testing.T) {
	takesTurns(t)
	hours := 6
	if os.Getenv("MINIKCTL_MEASURE") != "" {
		hours = 48
	}
	c := startMinutely(t, virtual.Config{Concurrent: hours == 48})
	began := time.Now()
	var heap []string
	for i := range hours {
		c.Advance(time.Hour)
		if hours == 48 && i%6 == 5 {
			heap = append(heap, fmt.Sprintf("%.1f", liveHeap()))
		}
	}
	c.check()
	if hours == 48 {
		t.Logf("48 hours took %.1f s; live heap after each 6 hours, in MB: %s", time.Since(began).Seconds(), strings.Join(heap, " "))
	}
}

// liveHeap returns the size of the live heap in MB.
func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}
