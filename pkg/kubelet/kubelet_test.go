package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

func TestPodRunsAndEnds(t *testing.T) {
	r := newRig(t)
	pod := r.pod("a", corev1.PodSpec{})
	got := r.waitSummary("a", "Running c:running+started+ready")
	if got.Status.PodIP == "" || got.Status.HostIP != "127.0.0.1" || got.Status.StartTime == nil || got.Status.ObservedGeneration != got.Generation {
		t.Errorf("got status %+v", got.Status)
	}
	want := []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"}
	for i, c := range got.Status.Conditions {
		if i >= len(want) || c.Type != want[i] || c.Status != corev1.ConditionTrue || c.ObservedGeneration != got.Generation {
			t.Errorf("condition %d: got %+v, want %v true", i, c, want)
		}
	}
	st := got.Status.ContainerStatuses[0]
	if !strings.HasPrefix(st.ContainerID, "minikctl://"+string(pod.UID)) || st.ImageID == "" || st.Image != "nginx" {
		t.Errorf("got container status %+v", st)
	}
	r.event("a", "Pulled", `Container image "nginx" already present on machine and can be accessed by the pod`)
	r.event("a", "Created", "Container created")
	r.event("a", "Started", "Container started")
	r.delete("a")
	r.waitSummary("a", "none")
	r.event("a", "Killing", "Stopping container c")
	r.until("the runtime no longer lists the pod", func() string {
		if pods, _ := r.runtime.Pods(t.Context()); len(pods) > 0 {
			return "it is there"
		}
		return ""
	})
	r.runtime.mu.Lock()
	defer r.runtime.mu.Unlock()
	for _, grace := range r.runtime.graces {
		if grace != 30*time.Second {
			t.Errorf("stopped with a grace of %v, want 30s", grace)
		}
	}
}

// step is an event in a pod's life and the status that follows.
type step struct {
	name string // of the container that ends; "": none
	code int
	pass time.Duration // before it
	want string
}

func TestRestarts(t *testing.T) {
	const loop = "CrashLoopBackOff<Error=1"
	tests := map[string]struct {
		spec  corev1.PodSpec
		steps []step
	}{
		"always": {corev1.PodSpec{}, []step{
			{want: "Running c:running+started+ready"},
			{name: "c", code: 0, want: "Running c:running<Completed=0#1+started+ready"},
			{name: "c", code: 1, want: "Running c:" + loop + "#1"},
			{pass: 11 * time.Second, want: "Running c:running<Error=1#2+started+ready"},
			{name: "c", code: 1, want: "Running c:" + loop + "#2"},
			{pass: 11 * time.Second, want: "Running c:" + loop + "#2"},
			{pass: 10 * time.Second, want: "Running c:running<Error=1#3+started+ready"},
			// It ran for so long that the backoff is reset.
			{pass: 11 * time.Minute, name: "c", code: 1, want: "Running c:running<Error=1#4+started+ready"},
		}},
		"on failure": {corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure}, []step{
			{want: "Running c:running+started+ready"},
			{name: "c", code: 2, want: "Running c:running<Error=2#1+started+ready"},
			{name: "c", code: 0, want: "Succeeded c:Completed=0<Error=2#1"},
		}},
		"never, success": {corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}, []step{
			{want: "Running c:running+started+ready"},
			{name: "c", code: 0, want: "Succeeded c:Completed=0"},
		}},
		"never, one of two fails": {
			corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "b"}, {Name: "a"}}}, []step{
				{want: "Running a:running+started+ready b:running+started+ready"},
				{name: "a", code: 0, want: "Running a:Completed=0 b:running+started+ready"},
				{name: "b", code: 137, want: "Failed a:Completed=0 b:Error=137"},
			}},
		"init containers": {corev1.PodSpec{InitContainers: []corev1.Container{{Name: "i"}, {Name: "j"}}}, []step{
			{want: "Pending i:running+started j:PodInitializing c:PodInitializing"},
			{name: "i", code: 0, want: "Pending i:Completed=0+ready j:running+started c:PodInitializing"},
			{name: "j", code: 1, want: "Pending i:Completed=0+ready j:running<Error=1#1+started c:PodInitializing"},
			{name: "j", code: 0, want: "Running i:Completed=0+ready j:Completed=0<Error=1#1+ready c:running+started+ready"},
		}},
		"init fails for good": {
			corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, InitContainers: []corev1.Container{{Name: "i"}}}, []step{
				{want: "Pending i:running+started c:PodInitializing"},
				{name: "i", code: 3, want: "Failed i:Error=3 c:PodInitializing"},
			}},
		"sidecar": {corev1.PodSpec{
			RestartPolicy:  corev1.RestartPolicyNever,
			InitContainers: []corev1.Container{{Name: "s", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}},
		}, []step{
			{want: "Running s:running+started+ready c:running+started+ready"},
			{name: "s", code: 1, want: "Running s:running<Error=1#1+started+ready c:running+started+ready"},
			{name: "c", code: 0, want: "Succeeded s:Error=143<Error=1#1 c:Completed=0"},
		}},
		"a container's own policy": {corev1.PodSpec{Containers: []corev1.Container{
			{Name: "c", RestartPolicy: new(corev1.ContainerRestartPolicyNever)},
		}}, []step{
			{want: "Running c:running+started+ready"},
			{name: "c", code: 4, want: "Failed c:Error=4"},
		}},
		"rules of a container": {corev1.PodSpec{RestartPolicy: corev1.RestartPolicyAlways, Containers: []corev1.Container{{
			Name: "c", RestartPolicy: new(corev1.ContainerRestartPolicyNever), RestartPolicyRules: []corev1.ContainerRestartRule{{
				Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
					Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42, 43},
				},
			}},
		}}}, []step{
			{want: "Running c:running+started+ready"},
			{name: "c", code: 42, want: "Running c:running<Error=42#1+started+ready"},
			{name: "c", code: 4, want: "Failed c:Error=4<Error=42#1"},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			pod := r.pod("p", test.spec)
			for _, s := range test.steps {
				r.advance(s.pass)
				if s.name != "" {
					r.exit(pod, s.name, s.code)
				}
				r.waitSummary("p", s.want)
			}
		})
	}
}

func TestCrashLoopMessages(t *testing.T) {
	r := newRig(t)
	pod := r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	r.exit(pod, "c", 1)
	r.waitSummary("p", "Running c:running<Error=1#1+started+ready")
	r.exit(pod, "c", 1)
	got := r.waitSummary("p", "Running c:CrashLoopBackOff<Error=1#1")
	name := "p_default(" + string(pod.UID) + ")"
	if m := got.Status.ContainerStatuses[0].State.Waiting.Message; m != "back-off 10s restarting failed container=c pod="+name {
		t.Errorf("got message %q", m)
	}
	r.event("p", "BackOff", "Back-off restarting failed container c in pod "+name)
}

func TestImages(t *testing.T) {
	r := newRig(t)
	r.pod("unknown", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "ghost"}}})
	got := r.waitSummary("unknown", "Pending c:ErrImagePull")
	if m := got.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(m, "images: {ghost: minikctl.dev/web}") {
		t.Errorf("the message %q does not contain a hint", m)
	}
	r.event("unknown", "Failed", "Error: ErrImagePull")
	r.advance(3 * time.Second)
	got = r.waitSummary("unknown", "Pending c:ImagePullBackOff")
	if m := got.Status.ContainerStatuses[0].State.Waiting.Message; !strings.HasPrefix(m, `Back-off pulling image "ghost": ErrImagePull: `) {
		t.Errorf("got message %q", m)
	}
	r.event("unknown", "BackOff", `Back-off pulling image "ghost"`)

	r.delete("unknown")
	r.waitSummary("unknown", "none")

	r.pod("never", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "ghost", ImagePullPolicy: corev1.PullNever}}})
	r.waitSummary("never", "Pending c:ErrImageNeverPull")
	r.event("never", "ErrImageNeverPull", `Container image "ghost" is not present with pull policy of Never`)

	r.pod("invalid", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "Ghost"}}})
	r.waitSummary("invalid", "Pending c:InvalidImageName")

	r.pod("mapped", corev1.PodSpec{})
	r.waitSummary("mapped", "Running c:running+started+ready")
	r.event("mapped", "ImageMapped", `Image "nginx" is mapped to minikctl.dev/web…`)

	r.pod("host", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "ghost", Command: []string{"sleep", "1"}}}})
	r.waitSummary("host", "Running c:running+started+ready")
	r.event("host", "HostCommand", `Image "ghost" is not available…`)
}

func TestFailedStartThatSucceeded(t *testing.T) {
	seen := Pod{Containers: []Container{{ID: "a1", Name: "a", Attempt: 1, Running: true}}}
	got := seen.with([]Container{{Name: "a", Attempt: 1, ExitCode: 128}, {Name: "b", ExitCode: 128}})
	if a := got.attempts("a"); len(a) != 1 || a[0].ID != "a1" {
		t.Errorf("got %+v", a)
	}
	if b := got.attempts("b"); len(b) != 1 || len(seen.Containers) != 1 {
		t.Errorf("got %+v of %+v", b, seen)
	}
	if a := seen.with([]Container{{Name: "a", Attempt: 2}}).attempts("a"); len(a) != 2 {
		t.Errorf("got %+v", a)
	}
}

func TestStartIsRefused(t *testing.T) {
	r := newRig(t)
	r.runtime.refuse = errors.New(`exec: "nope": executable file not found in $PATH`)
	r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:RunContainerError<StartError=128")
	r.event("p", "Failed", `Error: exec: "nope": executable file not found in $PATH`)
	r.pod("once", corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever})
	r.waitSummary("once", "Failed c:StartError=128")
	r.runtime.mu.Lock()
	r.runtime.refuse = nil
	r.runtime.mu.Unlock()
	r.advance(11 * time.Second)
	r.waitSummary("p", "Running c:running<StartError=128#1+started+ready")
}

func TestCreateContainerConfigError(t *testing.T) {
	r := newRig(t)
	from := func(ref *corev1.EnvVarSource) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "V", ValueFrom: ref}}}}}
	}
	local := corev1.LocalObjectReference{Name: "cm"}
	pod := r.pod("p", from(&corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: local, Key: "k"}}))
	got := r.waitSummary("p", "Pending c:CreateContainerConfigError")
	if m := got.Status.ContainerStatuses[0].State.Waiting.Message; m != `configmap "cm" not found` {
		t.Errorf("got message %q", m)
	}
	r.event("p", "Failed", `Error: configmap "cm" not found`)
	cm := r.create(client.Target{Resource: client.ConfigMaps, Namespace: "default"},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"other": "x"}}).(*corev1.ConfigMap)
	r.until("the message", func() string {
		m := r.get("p").Status.ContainerStatuses[0].State.Waiting.Message
		if m == "couldn't find key k in ConfigMap default/cm" {
			return ""
		}
		return m
	})
	cm = cm.DeepCopy()
	cm.Data["k"] = "v"
	if _, err := r.api.Update(t.Context(), client.Target{Resource: client.ConfigMaps, Namespace: "default", Name: "cm"}, cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.waitSummary("p", "Running c:running+started+ready")
	spec, _ := r.runtime.spec(pod.UID, "c")
	if !strings.Contains(strings.Join(spec.Env, "\n"), "V=v\n") {
		t.Errorf("got environment %q", spec.Env)
	}
	r.pod("optional", from(&corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "none"}, Key: "k", Optional: new(true),
	}}))
	r.waitSummary("optional", "Running c:running+started+ready")
}

// TestPodsMissingFromRuntime loses all pods, as a restart of the machine does: pods are started again if their restart policy
// allows it, and otherwise fail.
func TestPodsMissingFromRuntime(t *testing.T) {
	r := newRig(t)
	r.pod("always", corev1.PodSpec{})
	r.pod("never", corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever})
	r.waitSummary("always", "Running c:running+started+ready")
	r.waitSummary("never", "Running c:running+started+ready")
	r.stop()
	r.runtime.mu.Lock()
	clear(r.runtime.pods)
	r.runtime.mu.Unlock()
	r.start()
	r.waitSummary("always", "Running c:running<ContainerStatusUnknown=137#1+started+ready")
	r.waitSummary("never", "Failed c:ContainerStatusUnknown=137<ContainerStatusUnknown=137#1")
}

func TestLabelsOfTheNodeChange(t *testing.T) {
	r := newRig(t)
	node := r.kubelet.currentNode().DeepCopy()
	node.Labels["zone"] = "z"
	if _, err := r.api.Update(t.Context(), r.kubelet.nodeTarget(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.pod("p", corev1.PodSpec{NodeSelector: map[string]string{"zone": "z"}})
	r.waitSummary("p", "Running c:running+started+ready")
}

func TestDeadline(t *testing.T) {
	r := newRig(t)
	r.pod("p", corev1.PodSpec{ActiveDeadlineSeconds: new(int64(60))})
	r.waitSummary("p", "Running c:running+started+ready")
	r.advance(61 * time.Second)
	got := r.waitSummary("p", "Failed (DeadlineExceeded) c:Error=143")
	if got.Status.Message != "Pod was active on the node longer than the specified deadline" {
		t.Errorf("got message %q", got.Status.Message)
	}
}

// countingClient counts the writes of pod statuses.
type countingClient struct {
	client.Client
	patches atomic.Int64
}

func (c *countingClient) Patch(ctx context.Context, t client.Target, p client.Patch, opts metav1.PatchOptions) (runtime.Object, error) {
	if t.Resource == client.Pods {
		c.patches.Add(1)
	}
	return c.Client.Patch(ctx, t, p, opts)
}

func TestKubeletIsRestarted(t *testing.T) {
	r := newRig(t)
	kept := r.pod("kept", corev1.PodSpec{})
	r.pod("gone", corev1.PodSpec{})
	r.waitSummary("kept", "Running c:running+started+ready")
	r.waitSummary("gone", "Running c:running+started+ready")
	before := r.get("kept")
	r.stop()
	if _, err := r.api.Delete(t.Context(), client.Target{Resource: client.Pods, Namespace: "default", Name: "gone"},
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	counted := &countingClient{Client: r.api}
	r.start(func(_ *HostConfig, c *Config) { c.Client = counted })
	r.until("the stray pod is gone", func() string {
		if pods, _ := r.runtime.Pods(t.Context()); len(pods) != 1 || pods[0].UID != kept.UID {
			return "it is there"
		}
		return ""
	})
	if after := r.waitSummary("kept", "Running c:running+started+ready"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("a restart changed the pod: %s, before %s", after.ResourceVersion, before.ResourceVersion)
	}
	r.stop()
	if n := counted.patches.Load(); n > 0 {
		t.Errorf("a restart wrote %d equal statuses", n)
	}
}

func TestNode(t *testing.T) {
	r := newRig(t)
	node := r.kubelet.currentNode()
	for _, c := range node.Status.Conditions {
		want := corev1.ConditionFalse
		if c.Type == corev1.NodeReady {
			want = corev1.ConditionTrue
		}
		if c.Status != want {
			t.Errorf("got condition %+v", c)
		}
	}
	if node.Labels[corev1.LabelHostname] != "n1" || node.Labels[TierLabel] != "process" || node.Status.NodeInfo.KubeletVersion != "v1.36.3" {
		t.Errorf("got node %+v", node)
	}
	lease := func() *coordinationv1.Lease {
		got, err := r.api.Get(t.Context(), r.kubelet.leaseTarget(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.(*coordinationv1.Lease)
	}
	first := lease()
	if *first.Spec.HolderIdentity != "n1" || *first.Spec.LeaseDurationSeconds != 40 || first.OwnerReferences[0].UID != node.UID {
		t.Errorf("got lease %+v", first)
	}
	r.until("the lease is renewed", func() string {
		r.advance(10 * time.Second)
		if !lease().Spec.RenewTime.After(first.Spec.RenewTime.Time) {
			return "it is not"
		}
		return ""
	})
}

// TestTrace checks that the write of a pod's status has its causing revision and the duration of its stages.
func TestTrace(t *testing.T) {
	r := newRig(t)
	pod := r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	r.until("the trace", func() string {
		list, err := r.api.List(t.Context(), client.Target{Resource: minikctl.Traces}, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		seen := ""
		for _, obj := range list.Items {
			span := obj.(*minikctl.Trace).Span
			if span.Resource != "pods" || span.Name != "p" || span.Sub != "status" {
				continue
			}
			var stages []string
			for _, s := range span.Stages {
				stages = append(stages, s.Name)
			}
			seen += fmt.Sprintf("%d caused by %v: %q\n", span.Revision, span.Causes, stages)
			if slices.Contains(span.Causes, objects.RevisionOf(pod)) && slices.Contains(stages, "sandbox") &&
				slices.Contains(stages, "image") && slices.Contains(stages, "start") {
				return ""
			}
		}
		return fmt.Sprintf("pod %s: %s", pod.ResourceVersion, seen)
	})
}

func TestWatchPerNode(t *testing.T) {
	r := newRig(t, func(h *HostConfig, _ *Config) { h.PerNode = true })
	r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "other", Namespace: "default"}, Spec: corev1.PodSpec{
		NodeName: "n2", Containers: []corev1.Container{{Name: "c", Image: "nginx"}},
	}}
	r.create(client.Target{Resource: client.Pods, Namespace: "default"}, other)
	r.delete("p")
	r.waitSummary("p", "none")
	if _, ok := r.host.pod(keyOf(other)); ok {
		t.Error("the kubelet watches another node's pod")
	}
}

// TestIdle checks that an idle node writes its Lease only.
func TestIdle(t *testing.T) {
	r := newRig(t)
	r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	node, pod := r.kubelet.currentNode().ResourceVersion, r.get("p").ResourceVersion
	lease := func() string {
		got, err := r.api.Get(t.Context(), r.kubelet.leaseTarget(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.GetResourceVersion()
	}
	for range 6 {
		before := lease()
		r.until("the lease is renewed", func() string {
			if lease() != before {
				return ""
			}
			r.advance(time.Second)
			return "it is not"
		})
	}
	got, err := r.api.Get(t.Context(), r.kubelet.nodeTarget(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetResourceVersion() != node || r.get("p").ResourceVersion != pod {
		t.Errorf("node %s → %s, pod %s → %s", node, got.GetResourceVersion(), pod, r.get("p").ResourceVersion)
	}
}
