package virtual_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/objects"
)

// requests counts the writes of controllers and the scheduler, those that are refused too, as "USER VERB RESOURCE".
type requests struct {
	mu     sync.Mutex
	counts map[string]int
}

func (r *requests) count(user, verb string, t client.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := t.Resource.Resource
	if t.Subresource != "" {
		name += "/" + t.Subresource
	}
	r.counts[user+" "+verb+" "+name]++
}

// reset returns the counts since the last reset.
func (r *requests) reset() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.counts
	r.counts = map[string]int{}
	return out
}

// counting is the client of a component.
type counting struct {
	client.Client
	requests *requests
	user     string
}

func (c counting) Create(ctx context.Context, t client.Target, obj runtime.Object, opts metav1.CreateOptions) (runtime.Object, error) {
	c.requests.count(c.user, "create", t)
	return c.Client.Create(ctx, t, obj, opts)
}

func (c counting) Update(ctx context.Context, t client.Target, obj runtime.Object, opts metav1.UpdateOptions) (runtime.Object, error) {
	c.requests.count(c.user, "update", t)
	return c.Client.Update(ctx, t, obj, opts)
}

func (c counting) Patch(ctx context.Context, t client.Target, p client.Patch, opts metav1.PatchOptions) (runtime.Object, error) {
	c.requests.count(c.user, "patch", t)
	return c.Client.Patch(ctx, t, p, opts)
}

func (c counting) Delete(ctx context.Context, t client.Target, opts metav1.DeleteOptions) (runtime.Object, error) {
	c.requests.count(c.user, "delete", t)
	return c.Client.Delete(ctx, t, opts)
}

// refusing is a cluster in which requests of controllers are refused.
type refusing struct {
	*fleet
	requests *requests
}

func startRefusing(t *testing.T) *refusing {
	t.Helper()
	r := &requests{counts: map[string]int{}}
	c := virtual.Start(t, virtual.Config{Nodes: []string{"a"}, Client: func(user string, c client.Client) client.Client { return counting{c, r, user} }})
	return &refusing{&fleet{Cluster: c}, r}
}

// hour lets an hour pass. It fails the test if a component makes more writes of a kind, other than those of Leases, than most allows.
func (r *refusing) hour(most map[string]int) {
	r.Helper()
	r.requests.reset()
	r.Advance(time.Hour)
	for what, n := range r.requests.reset() {
		limit := 25 // as many as a backoff between 5 ms and 1000 s allows
		if m, ok := most[what]; ok {
			limit = m
		}
		if n > limit {
			r.Errorf("%d times %s in an hour, want at most %d", n, what, limit)
		}
	}
}

func (r *refusing) wantEvent(about, reason, message string) {
	r.Helper()
	events := r.eventsOf(about, reason)
	if !slices.ContainsFunc(events, regexp.MustCompile("^Warning "+message).MatchString) {
		r.Errorf("events %s of %s: %q, want %s", reason, about, events, message)
	}
}

// list returns the objects of a resource in the namespace default.
func list[T objects.Object](f *fleet, t client.Target) []T {
	f.Helper()
	t.Namespace = "default"
	got, err := f.List(f.Context(), t, metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	out := make([]T, len(got.Items))
	for i, obj := range got.Items {
		out[i] = obj.(T)
	}
	return out
}

func podTemplate(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "c"}}}}
}

// workloads are one of each kind that makes pods, with three pods each.
func (r *refusing) createWorkloads() {
	r.Helper()
	in := func(resource string) client.Target {
		return client.Target{Resource: appsv1.SchemeGroupVersion.WithResource(resource), Namespace: "default"}
	}
	r.create(in("deployments"), &appsv1.Deployment{ObjectMeta: meta("d"), Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(3)), Selector: selector("d"), Template: podTemplate("d")}})
	r.create(in("statefulsets"), &appsv1.StatefulSet{ObjectMeta: meta("s"), Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(3)), Selector: selector("s"), Template: podTemplate("s"), PodManagementPolicy: appsv1.ParallelPodManagement}})
	r.create(in("daemonsets"), &appsv1.DaemonSet{ObjectMeta: meta("ds"), Spec: appsv1.DaemonSetSpec{Selector: selector("ds"), Template: podTemplate("ds")}})
	job := podTemplate("j")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	r.create(client.Target{Resource: jobs, Namespace: "default"}, &batchv1.Job{ObjectMeta: meta("j"), Spec: batchv1.JobSpec{
		Completions: new(int32(3)), Parallelism: new(int32(3)), Template: job}})
	r.create(client.Target{Resource: corev1.SchemeGroupVersion.WithResource("replicationcontrollers"), Namespace: "default"},
		&corev1.ReplicationController{ObjectMeta: meta("rc"), Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(3)), Template: new(podTemplate("rc"))}})
	r.Advance(0)
}

// jobsWrites bound what a Job writes in an hour whose pods are refused: its backoff is between a second and a minute.
var jobsWrites = map[string]int{"job-controller create pods": 66, "job-controller create events": 66, "job-controller patch events": 66}

// running fails the test unless all pods of the workloads have been made, and the Job has completed.
func (r *refusing) running() {
	r.Helper()
	counts := map[string]int{}
	for _, p := range list[*corev1.Pod](r.fleet, client.Target{Resource: client.Pods}) {
		counts[p.Labels["app"]]++
	}
	for name, want := range map[string]int{"d": 3, "s": 3, "ds": 1, "j": 3, "rc": 3} {
		if counts[name] != want {
			r.Errorf("%s has %d pods, want %d", name, counts[name], want)
		}
	}
	for _, j := range list[*batchv1.Job](r.fleet, client.Target{Resource: jobs}) {
		if j.Status.Succeeded != 3 {
			r.Errorf("the Job: %+v", j.Status)
		}
	}
}

// TestQuotaRefusesPods: the event and the condition say so, controllers try again at their backoff, and make all pods once the quota allows it.
func TestQuotaRefusesPods(t *testing.T) {
	r := startRefusing(t)
	r.create(client.Target{Resource: corev1.SchemeGroupVersion.WithResource("resourcequotas"), Namespace: "default"},
		&corev1.ResourceQuota{ObjectMeta: meta("q"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}})
	r.Advance(0)
	r.createWorkloads()
	const message = `is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0$`
	set := list[*appsv1.ReplicaSet](r.fleet, client.Target{Resource: appsv1.SchemeGroupVersion.WithResource("replicasets")})[0].Name
	r.wantEvent(set, "FailedCreate", `Error creating: pods "`+set+`-[a-z0-9]{5}" `+message)
	r.wantEvent("j", "FailedCreate", `Error creating: pods "j-[a-z0-9]{5}" `+message)
	r.wantEvent("ds", "FailedCreate", `Error creating: pods "ds-[a-z0-9]{5}" `+message)
	r.wantEvent("rc", "FailedCreate", `Error creating: pods "rc-[a-z0-9]{5}" `+message)
	r.wantEvent("s", "FailedCreate", `Create Pod s-0 in StatefulSet s failed error: pods "s-0" `+message)
	d := list[*appsv1.Deployment](r.fleet, client.Target{Resource: appsv1.SchemeGroupVersion.WithResource("deployments")})[0]
	i := slices.IndexFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentReplicaFailure })
	if i < 0 || d.Status.Conditions[i].Reason != "FailedCreate" || !strings.Contains(d.Status.Conditions[i].Message, "exceeded quota: q") {
		t.Errorf("conditions of the Deployment: %+v", d.Status.Conditions)
	}
	r.hour(jobsWrites)
	r.merge(client.Target{Resource: corev1.SchemeGroupVersion.WithResource("resourcequotas"), Namespace: "default", Name: "q"}, `{"spec":{"hard":{"pods":"20"}}}`)
	r.Advance(20 * time.Minute)
	r.running()
}

// TestWebhookThatIsDown: no pod is created while the webhook cannot be called.
func TestWebhookThatIsDown(t *testing.T) {
	r := startRefusing(t)
	hook := client.Target{Resource: admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")}
	none := admissionregistrationv1.SideEffectClassNone
	r.create(hook, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "down"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "down.example.com", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			Rules: []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}}},
		}}})
	r.createWorkloads()
	const message = `Internal error occurred: failed calling webhook "down.example.com": failed to call webhook: Post "https://127.0.0.1:1/\?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused$`
	for _, name := range []string{"j", "ds", "rc"} {
		r.wantEvent(name, "FailedCreate", "Error creating: "+message)
	}
	r.wantEvent("s", "FailedCreate", "Create Pod s-0 in StatefulSet s failed error: "+message)
	r.hour(jobsWrites)
	hook.Name = "down"
	if _, err := r.Delete(t.Context(), hook, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Advance(20 * time.Minute)
	r.running()
}

// TestTemplateThatIsNotAdmitted: the pods of workloads need a ServiceAccount that does not exist.
func TestTemplateThatIsNotAdmitted(t *testing.T) {
	r := startRefusing(t)
	job := podTemplate("j")
	job.Spec.RestartPolicy, job.Spec.ServiceAccountName = corev1.RestartPolicyNever, "later"
	cron := &batchv1.CronJob{ObjectMeta: meta("c"), Spec: batchv1.CronJobSpec{Schedule: "*/30 * * * *", ConcurrencyPolicy: batchv1.ForbidConcurrent,
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: job}}}}
	r.create(client.Target{Resource: cronJobs, Namespace: "default"}, cron)
	r.Advance(31 * time.Minute)
	made := list[*batchv1.Job](r.fleet, client.Target{Resource: jobs})
	if len(made) != 1 {
		t.Fatalf("%d Jobs", len(made))
	}
	r.wantEvent(made[0].Name, "FailedCreate", fmt.Sprintf(`Error creating: pods "%s-" is forbidden: error looking up service account default/later: serviceaccount "later" not found$`, made[0].Name))
	r.hour(jobsWrites)
	r.create(client.Target{Resource: client.ServiceAccounts, Namespace: "default"}, &corev1.ServiceAccount{ObjectMeta: meta("later")})
	r.Advance(2 * time.Minute)
	for _, j := range list[*batchv1.Job](r.fleet, client.Target{Resource: jobs}) {
		if j.Status.Succeeded != 1 {
			t.Errorf("Job %s: %+v", j.Name, j.Status)
		}
	}
}

// TestUnknownTimeZone: the API refuses a CronJob in a zone that does not exist.
func TestUnknownTimeZone(t *testing.T) {
	r := startRefusing(t)
	job := podTemplate("j")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	cron := &batchv1.CronJob{ObjectMeta: meta("c"), Spec: batchv1.CronJobSpec{Schedule: "* * * * *", TimeZone: new("Middle/Earth"),
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: job}}}}
	_, err := r.Create(t.Context(), client.Target{Resource: cronJobs, Namespace: "default"}, cron, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `spec.timeZone: Invalid value: "Middle/Earth": unknown time zone Middle/Earth`) {
		t.Errorf("the response: %v", err)
	}
	r.hour(nil)
}
