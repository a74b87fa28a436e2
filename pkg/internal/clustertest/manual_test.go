package clustertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/minikctl/minikctl/pkg/client"
)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  progressDeadlineSeconds: 600
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
`

func progressing(d *appsv1.Deployment) string {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return fmt.Sprintf("%s %s", c.Status, c.Reason)
		}
	}
	return "none"
}

// TestSettledDeployment: after an advance by nothing, everything that a Deployment needs is done.
func TestSettledDeployment(t *testing.T) {
	c := startManual(t, "a", "b")
	apply(c, client.Deployments, &appsv1.Deployment{}, web)
	c.Advance(0)
	d := get[*appsv1.Deployment](c, client.Deployments, "default", "web")
	if d.Status.ReadyReplicas != 3 || d.Status.AvailableReplicas != 3 || progressing(d) != "True NewReplicaSetAvailable" {
		t.Errorf("got %+v", d.Status)
	}
	var reasons []string
	for _, e := range list[*corev1.Event](c, client.Events, "default") {
		if e.InvolvedObject.Kind != "Node" {
			reasons = append(reasons, e.Reason)
		}
	}
	slices.Sort(reasons)
	if want := []string{"Scheduled", "Scheduled", "Scheduled", "ScalingReplicaSet", "SuccessfulCreate", "SuccessfulCreate", "SuccessfulCreate"}; len(reasons) != len(want) {
		t.Errorf("got Events %v, want %v", reasons, want)
	}
	for _, p := range list[*corev1.Pod](c, client.Pods, "default") {
		if !p.CreationTimestamp.Time.Equal(c.Clock.Now()) || !p.Status.StartTime.Time.Equal(c.Clock.Now()) {
			t.Errorf("%s was created at %s and started at %s, the time is %s", p.Name, p.CreationTimestamp, p.Status.StartTime, c.Clock.Now())
		}
	}
}

// TestProgressDeadline: a Deployment whose pods fit on no node fails after progressDeadlineSeconds, not before.
func TestProgressDeadline(t *testing.T) {
	c := startManual(t)
	apply(c, client.Deployments, &appsv1.Deployment{}, web)
	c.Advance(599 * time.Second)
	if got := progressing(get[*appsv1.Deployment](c, client.Deployments, "default", "web")); got != "True ReplicaSetUpdated" {
		t.Errorf("before the deadline: got %s", got)
	}
	c.Advance(2 * time.Second)
	if got := progressing(get[*appsv1.Deployment](c, client.Deployments, "default", "web")); got != "False ProgressDeadlineExceeded" {
		t.Errorf("after the deadline: got %s", got)
	}
}

// TestNodeIsLost: the lease of a node without a kubelet runs out, and its pods are evicted five minutes later.
func TestNodeIsLost(t *testing.T) {
	c := startManual(t, "a", "b")
	apply(c, client.Deployments, &appsv1.Deployment{}, web)
	c.Advance(time.Minute)
	c.StopNode("a")
	on := func(node string) (n int) {
		for _, p := range list[*corev1.Pod](c, client.Pods, "default") {
			if p.Spec.NodeName == node && p.DeletionTimestamp == nil {
				n++
			}
		}
		return n
	}
	before := on("a")
	if before == 0 || on("b") == 0 {
		t.Fatalf("%d and %d pods", before, on("b"))
	}
	c.Advance(2 * time.Minute)
	n := get[*corev1.Node](c, client.Nodes, "", "a")
	if len(n.Spec.Taints) != 2 || n.Spec.Taints[0].Key != corev1.TaintNodeUnreachable {
		t.Errorf("got taints %v", n.Spec.Taints)
	}
	if got := on("a"); got != before {
		t.Errorf("%d of %d pods are left before the toleration of 5m ends", got, before)
	}
	c.Advance(5 * time.Minute)
	if got := on("a"); got != 0 {
		t.Errorf("%d pods are left", got)
	}
	if got := on("b"); got != 3 {
		t.Errorf("%d pods run on the other node", got)
	}
}

// TestTokensExpire: a token is accepted until its time has passed on the cluster's clock.
func TestTokensExpire(t *testing.T) {
	c := startManual(t)
	kube, err := kubernetes.NewForConfig(c.Env.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	hour := int64(3600)
	token, err := kube.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default",
		&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{ExpirationSeconds: &hour}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := token.Status.ExpirationTimestamp.Sub(c.Clock.Now()); got != time.Hour {
		t.Errorf("the token expires in %s", got)
	}
	cfg := c.Env.Config(token.Status.Token)
	as, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.Advance(59 * time.Minute)
	if _, err := as.Discovery().ServerVersion(); err != nil {
		t.Errorf("before: %v", err)
	}
	_, err = as.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("before: got %v, want Forbidden", err)
	}
	c.Advance(3 * time.Minute) // it has a leeway of a minute
	if _, err := as.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("after: got %v, want Unauthorized", err)
	}
}

// TestEventsExpire: Events live for an hour of the cluster's time.
func TestEventsExpire(t *testing.T) {
	c := startManual(t, "a")
	apply(c, client.Deployments, &appsv1.Deployment{}, web)
	c.Advance(59 * time.Minute)
	if got := len(list[*corev1.Event](c, client.Events, "default")); got < 7 {
		t.Errorf("%d Events after 59m", got)
	}
	c.Advance(3 * time.Minute)
	if got := list[*corev1.Event](c, client.Events, "default"); len(got) > 0 {
		t.Errorf("%d Events are left, the first is %v", len(got), got[0])
	}
}

// TestCrashLoopOfSimulatedPod: the backoff of a container doubles up to five minutes.
func TestCrashLoopOfSimulatedPod(t *testing.T) {
	c := startManual(t, "a")
	apply(c, client.Pods, &corev1.Pod{}, `
apiVersion: v1
kind: Pod
metadata: {name: crash, annotations: {minikctl.dev/sim-exit-after: 1s, minikctl.dev/sim-exit-code: "1"}}
spec: {containers: [{name: main, image: crash}]}
`)
	restarts := func() int32 {
		return get[*corev1.Pod](c, client.Pods, "default", "crash").Status.ContainerStatuses[0].RestartCount
	}
	for _, step := range []struct {
		to   time.Duration
		want int32
	}{{0, 0}, {5 * time.Second, 1}, {10 * time.Second, 1}, {14 * time.Second, 2}, {34 * time.Second, 3}, {time.Hour, 16}} {
		c.Advance(step.to - c.Clock.Since(get[*corev1.Pod](c, client.Pods, "default", "crash").CreationTimestamp.Time))
		if got := restarts(); got != step.want {
			t.Errorf("after %s: %d restarts, want %d", step.to, got, step.want)
		}
	}
}

// TestHoursPass: some hours of an idle cluster take few steps, since renewals of Leases between which nothing else is due are left out, and
// nodes stay ready.
func TestHoursPass(t *testing.T) {
	c := startManual(t, "a", "b", "c")
	apply(c, client.Deployments, &appsv1.Deployment{}, web)
	p, err := c.Clock.Advance(t.Context(), c.Clock.Now().Add(6*time.Hour), 0)
	if err != nil {
		t.Fatal(err)
	}
	if renewals := 6 * 60 * 6; p.Steps > renewals/4 {
		t.Errorf("%d steps, with %d renewals of a Lease", p.Steps, renewals)
	}
	for _, n := range list[*corev1.Node](c, client.Nodes, "") {
		for _, cond := range n.Status.Conditions {
			if cond.Type == corev1.NodeReady && (cond.Status != corev1.ConditionTrue || c.Clock.Since(cond.LastHeartbeatTime.Time) > 5*time.Minute) {
				t.Errorf("%s: %+v", n.Name, cond)
			}
		}
	}
}
