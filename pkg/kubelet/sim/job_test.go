package sim_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
)

// newJob returns a client of an API server that has a Job.
func newJob(t *testing.T) (client.Client, *batchv1.Job) {
	t.Helper()
	cl := apiservertest.New(t).Client("test")
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "default"}}
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "x"}}}
	made, err := cl.Create(t.Context(), client.Target{Resource: jobs, Namespace: "default"}, job, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cl, made.(*batchv1.Job)
}

var jobs = batchv1.SchemeGroupVersion.WithResource("jobs")

// podOf returns a pod of a Job.
func podOf(job *batchv1.Job, uid types.UID, rules map[string]string) kubelet.PodSpec {
	return kubelet.PodSpec{
		UID: uid, Name: string(uid), Namespace: job.Namespace, OwnerKind: "Job", OwnerName: job.Name, OwnerUID: job.UID, Annotations: rules,
	}
}

// jobRun runs the pods of a Job.
type jobRun struct {
	*testing.T
	client client.Client
	clock  *testclock.FakeClock
	job    *batchv1.Job
	rules  map[string]string
	rt     kubelet.Runtime
}

func newJobRun(t *testing.T, rules map[string]string) *jobRun {
	cl, job := newJob(t)
	r := &jobRun{T: t, client: cl, clock: testclock.NewFakeClock(time.Unix(1_700_000_000, 0)), job: job, rules: rules}
	r.restart()
	return r
}

// restart forgets all pods, as a restart of the daemon does.
func (r *jobRun) restart() { r.rt = sim.NewCluster(r.clock, r.client).Runtime("") }

// start starts an attempt of a pod's container and returns its exit code.
func (r *jobRun) start(uid types.UID, attempt int) string {
	r.Helper()
	if _, err := r.rt.StartPod(r.Context(), podOf(r.job, uid, r.rules)); err != nil {
		r.Fatal(err)
	}
	id, err := r.rt.Start(r.Context(), uid, kubelet.ContainerSpec{Name: "main", Attempt: attempt})
	if err != nil {
		return err.Error()
	}
	return outcome(r.T, r.rt, r.clock, id)
}

// TestFailuresAfterRestarts: what the pods of a Job have done counts when they are gone, and when the daemon has been started again. A start
// that a new daemon simulates again has the same outcome, and counts once.
func TestFailuresAfterRestarts(t *testing.T) {
	t.Run("times", func(t *testing.T) {
		r := newJobRun(t, map[string]string{sim.FailTimes: "3"})
		got := []string{r.start("a", 0), r.start("a", 1)}
		r.restart()
		got = append(got, r.start("a", 1))
		r.restart()
		got = append(got, r.start("b", 0), r.start("b", 1), r.start("c", 0))
		r.restart()
		got = append(got, r.start("b", 0), r.start("b", 1), r.start("d", 0))
		if text := strings.Join(got, " "); text != "1 1 1 1 0 0 1 0 0" {
			t.Errorf("got %s", text)
		}
	})
	t.Run("time", func(t *testing.T) {
		r := newJobRun(t, map[string]string{sim.FailFor: "1m"})
		got := []string{r.start("a", 0)}
		r.clock.Step(50 * time.Second)
		r.restart()
		got = append(got, r.start("b", 0))
		r.clock.Step(10 * time.Second)
		r.restart()
		got = append(got, r.start("c", 0))
		if text := strings.Join(got, " "); text != "1 1 0" {
			t.Errorf("got %s", text)
		}
	})
}

// TestFailuresOfParallelPods: two processes start the pods of a Job at the same time, and as many fail as the rule says.
func TestFailuresOfParallelPods(t *testing.T) {
	const each, fail = 5, 4
	r := newJobRun(t, map[string]string{sim.FailTimes: fmt.Sprint(fail)})
	var codes []int
	runtimes := []kubelet.Runtime{r.rt, sim.NewCluster(r.clock, r.client).Runtime("")}
	var started sync.WaitGroup
	for i, rt := range runtimes {
		for j := range each {
			started.Go(func() {
				uid := types.UID(fmt.Sprint(i, "-", j))
				if _, err := rt.StartPod(t.Context(), podOf(r.job, uid, r.rules)); err != nil {
					t.Error(err)
				}
				if _, err := rt.Start(t.Context(), uid, kubelet.ContainerSpec{Name: "main"}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	started.Wait()
	r.clock.Step(time.Second)
	for _, rt := range runtimes {
		for slices.ContainsFunc(pods(t, rt), func(p kubelet.Pod) bool { return p.Containers[0].Running }) {
			<-rt.Changed()
		}
		for _, p := range pods(t, rt) {
			codes = append(codes, p.Containers[0].ExitCode)
		}
	}
	slices.Sort(codes)
	if want := []int{0, 0, 0, 0, 0, 0, 1, 1, 1, 1}; !slices.Equal(codes, want) {
		t.Errorf("got %v", codes)
	}
}

// TestFailuresWithoutJob: pods that outlive their Job, or belong to one that another has replaced, count on their own.
func TestFailuresWithoutJob(t *testing.T) {
	r := newJobRun(t, map[string]string{sim.FailTimes: "1"})
	got := []string{r.start("a", 0)}
	now := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)} // by default it waits until its pods are orphans
	if _, err := r.client.Delete(t.Context(), client.Target{Resource: jobs, Namespace: "default", Name: "j"}, now); err != nil {
		t.Fatal(err)
	}
	got = append(got, r.start("a", 1), r.start("b", 0))
	r.job.UID = "other"
	got = append(got, r.start("c", 0), r.start("c", 1))
	if text := strings.Join(got, " "); text != "1 0 1 1 0" {
		t.Errorf("got %s", text)
	}
}

// TestBadHistory: containers don't start when the annotation of the Job can't be parsed.
func TestBadHistory(t *testing.T) {
	r := newJobRun(t, map[string]string{sim.FailTimes: "1"})
	patch := client.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"annotations":{"minikctl.dev/sim-history":"no"}}}`)}
	if _, err := r.client.Patch(t.Context(), client.Target{Resource: jobs, Namespace: "default", Name: "j"}, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := r.start("a", 0); !strings.HasPrefix(got, "annotation minikctl.dev/sim-history of the job: invalid character") {
		t.Errorf("got %s", got)
	}
}
