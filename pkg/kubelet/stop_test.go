package kubelet

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

func TestSidecarsEndLast(t *testing.T) {
	r := newRig(t)
	always := new(corev1.ContainerRestartPolicyAlways)
	r.pod("p", corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "s1", RestartPolicy: always}, {Name: "s2", RestartPolicy: always}},
	})
	r.waitSummary("p", "Running s1:running+started+ready s2:running+started+ready c:running+started+ready")
	r.delete("p")
	r.waitSummary("p", "none")
	r.runtime.mu.Lock()
	defer r.runtime.mu.Unlock()
	if want := []string{"c", "s2", "s1"}; !slices.Equal(r.runtime.ended, want) {
		t.Errorf("they ended in the order %q, want %q", r.runtime.ended, want)
	}
}

func TestHooks(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	var ran []string
	release := make(chan struct{})
	r.runtime.exec = func(id ContainerID, cmd []string, _ Streams) (int, error) {
		mu.Lock()
		ran = append(ran, cmd[0])
		mu.Unlock()
		if cmd[0] == "begin" {
			<-release
		}
		if cmd[0] == "fail" {
			return 1, nil
		}
		return 0, nil
	}
	run := func(cmd string) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{cmd}}}
	}
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Lifecycle: &corev1.Lifecycle{PostStart: run("begin"), PreStop: run("end")}}}})
	r.until("the hook runs", func() string {
		mu.Lock()
		defer mu.Unlock()
		return map[bool]string{false: "not yet"}[slices.Contains(ran, "begin")]
	})
	r.waitSummary("p", "Pending c:ContainerCreating")
	close(release)
	r.waitSummary("p", "Running c:running+started+ready")
	r.delete("p")
	r.waitSummary("p", "none")
	mu.Lock()
	if want := []string{"begin", "end"}; !slices.Equal(ran, want) {
		t.Errorf("hooks %q ran, want %q", ran, want)
	}
	mu.Unlock()

	r.pod("bad", corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "c", Lifecycle: &corev1.Lifecycle{PostStart: run("fail")}}},
	})
	r.waitSummary("bad", "Failed c:Error=143")
	r.event("bad", "FailedPostStartHook", "PostStartHook failed")
	r.event("bad", "Killing", "FailedPostStartHook")
}

func TestStopPodIsRetried(t *testing.T) {
	r := newRig(t)
	pod := r.pod("p", corev1.PodSpec{})
	r.waitSummary("p", "Running c:running+started+ready")
	r.runtime.mu.Lock()
	r.runtime.stopFails = 2
	r.runtime.mu.Unlock()
	r.setStatus(pod, func(s *corev1.PodStatus) { s.Phase = corev1.PodFailed })
	r.waitSummaryAdvancing("p", "Failed c:Error=143")
	r.event("p", "FailedKillPod", `error killing pod: container "c": the supervisor is gone`)
}

func TestShorterGraceWins(t *testing.T) {
	r := newRig(t)
	hold, hangs := make(chan struct{}), make(chan struct{})
	r.runtime.exec = func(ContainerID, []string, Streams) (int, error) {
		close(hangs)
		<-hold
		return 0, nil
	}
	defer close(hold)
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Lifecycle: &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"hang"}}},
	}}}})
	r.waitSummary("p", "Running c:running+started+ready")
	r.delete("p")
	<-hangs
	if _, err := r.api.Delete(t.Context(), client.Target{Resource: client.Pods, Namespace: "default", Name: "p"},
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(3))}); err != nil {
		t.Fatal(err)
	}
	r.waitSummary("p", "none")
}

func TestAdmission(t *testing.T) {
	r := newRig(t, func(_ *HostConfig, c *Config) {
		c.Node.Capacity = corev1.ResourceList{"cpu": resource.MustParse("1"), "pods": resource.MustParse("2")}
	})
	want := func(cpu string) corev1.PodSpec {
		return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu)},
		}}}}
	}
	r.pod("a", want("600m"))
	r.waitSummary("a", "Running c:running+started+ready")
	r.pod("b", want("500m"))
	got := r.waitSummary("b", "Failed (OutOfcpu)")
	const message = "Pod was rejected: Node didn't have enough resource: cpu, requested: 500, used: 600, capacity: 1000"
	if got.Status.Message != message {
		t.Errorf("got message %q", got.Status.Message)
	}
	r.event("b", "OutOfcpu", strings.TrimPrefix(message, "Pod was rejected: "))
	r.pod("c", want("100m"))
	r.waitSummary("c", "Running c:running+started+ready")
	r.pod("d", want("100m"))
	r.waitSummary("d", "Failed (OutOfpods)")
	elsewhere := want("1m")
	elsewhere.NodeSelector = map[string]string{"zone": "z"}
	r.pod("e", elsewhere)
	r.waitSummary("e", "Failed (NodeAffinity)")
}

func TestAdmissionOfHostPorts(t *testing.T) {
	r := newRig(t)
	with := func(ports ...corev1.ContainerPort) corev1.PodSpec {
		for i := range ports {
			ports[i].ContainerPort, ports[i].Protocol = 80, cmp.Or(ports[i].Protocol, corev1.ProtocolTCP)
		}
		return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Ports: ports}}}
	}
	r.pod("a", with(corev1.ContainerPort{HostPort: 8080}))
	r.waitSummary("a", "Running c:running+started+ready")
	r.pod("b", with(corev1.ContainerPort{HostPort: 8080, HostIP: "127.0.0.1"}))
	got := r.waitSummary("b", "Failed (NodePorts)")
	if want := "Pod was rejected: Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"; got.Status.Message != want {
		t.Errorf("got message %q", got.Status.Message)
	}
	r.pod("c", with(corev1.ContainerPort{HostPort: 8080, Protocol: corev1.ProtocolUDP}, corev1.ContainerPort{HostPort: 8081}))
	r.waitSummary("c", "Running c:running+started+ready")
	r.delete("a")
	r.waitSummary("a", "none")
	r.pod("d", with(corev1.ContainerPort{HostPort: 8080}))
	r.waitSummary("d", "Running c:running+started+ready")
}

func TestAdmissionByTaints(t *testing.T) {
	r := newRig(t, func(_ *HostConfig, c *Config) {
		c.Node.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}, {Key: "s", Effect: corev1.TaintEffectNoSchedule}}
	})
	r.pod("a", corev1.PodSpec{})
	r.waitSummary("a", "Failed (TaintToleration)")
	r.pod("b", corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists}}})
	r.waitSummary("b", "Running c:running+started+ready")
}

func TestAdmissionByOS(t *testing.T) {
	r := newRig(t)
	r.pod("other", corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.Windows}})
	got := r.waitSummary("other", "Failed (PodOSNotSupported)")
	if want := "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS"; got.Status.Message != want {
		t.Errorf("got message %q", got.Status.Message)
	}
	labeled := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "labeled", Namespace: "default", Labels: map[string]string{corev1.LabelOSStable: "windows"}},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
	}
	r.create(client.Target{Resource: client.Pods, Namespace: "default"}, labeled)
	r.waitSummary("labeled", "Failed (PodOSSelectorNodeLabelDoesNotMatch)")
	r.pod("own", corev1.PodSpec{OS: &corev1.PodOS{Name: corev1.OSName(runtime.GOOS)}})
	r.waitSummary("own", "Running c:running+started+ready")
}

// TestGracePeriod: the grace period of a pod is that of its spec, and 30 s without one. It also holds for a container that is restarted.
func TestGracePeriod(t *testing.T) {
	r := newRig(t)
	for grace, want := range map[*int64]time.Duration{nil: 30 * time.Second, new(int64(7)): 7 * time.Second} {
		pod := r.pod("p", corev1.PodSpec{TerminationGracePeriodSeconds: grace})
		next := r.waitSummary("p", "Running c:running+started+ready").DeepCopy()
		next.Spec.Containers[0].Image = "minikctl.dev/pause"
		if _, err := r.api.Update(t.Context(), client.In(client.Pods, keyOf(next)), next, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.waitSummary("p", "Running c:running<Error=143#1+started+ready")
		r.delete("p")
		r.waitSummary("p", "none")
		r.runtime.mu.Lock()
		for _, start := range []string{"0", "1"} {
			if got := r.runtime.graces[ContainerID(string(pod.UID)+"_c_"+start)]; got != want {
				t.Errorf("start %s: got %v, want %v", start, got, want)
			}
		}
		r.runtime.mu.Unlock()
	}
}

// TestHookKinds: hooks that sleep and hooks that send requests.
func TestHookKinds(t *testing.T) {
	r := newRig(t)
	received := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { received <- req.URL.Path }))
	defer srv.Close()
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Lifecycle: &corev1.Lifecycle{
		PostStart: &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Port: intstr.Parse(portText(t, srv.Listener)), Path: "/begin"}},
		PreStop:   &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 4}},
	}}}})
	r.until("the request of the hook", func() string {
		select {
		case got := <-received:
			return strings.TrimPrefix(got, "/begin")
		default:
			return "none"
		}
	})
	pod := r.waitSummary("p", "Running c:running+started+ready")
	since := r.clock.Now()
	r.delete("p")
	r.waitSummaryAdvancing("p", "none")
	r.runtime.mu.Lock()
	defer r.runtime.mu.Unlock()
	grace := r.runtime.graces[ContainerID(string(pod.UID)+"_c_0")] // what the hook has left of 30 s
	if slept := r.clock.Since(since); slept < 4*time.Second || grace > 26*time.Second {
		t.Errorf("the pod ended after %v, and the program had %v", slept, grace)
	}
}

func TestIgnoredFieldsGetAnEvent(t *testing.T) {
	r := newRig(t)
	r.pod("plain", corev1.PodSpec{})
	r.pod("odd", corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}}})
	r.event("odd", "NotHonoured", "spec.imagePullSecrets: not supported on nodes of the process runtime: images are not pulled from registries")
	r.waitSummary("plain", "Running c:running+started+ready")
	r.event("plain", "Started", "Container started")
	if r.missingEvent("plain", "NotHonoured", "…") == "" {
		t.Error("there is a warning about a plain pod")
	}
}

func TestTerminationMessage(t *testing.T) {
	r := newRig(t)
	pod := r.pod("p", corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{
		{Name: "file"}, {Name: "log", TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError},
	}})
	r.waitSummary("p", "Running file:running+started+ready log:running+started+ready")
	spec, _ := r.runtime.spec(pod.UID, "file")
	last := spec.Mounts[len(spec.Mounts)-1]
	if last.Container != "/dev/termination-log" {
		t.Fatalf("got mounts %+v", spec.Mounts)
	}
	writeFile(t, last.Host, "last words")
	spec, _ = r.runtime.spec(pod.UID, "log")
	writeFile(t, spec.LogPath, "2026-01-02T03:04:05Z stdout F one\n2026-01-02T03:04:05Z stderr F two\n")
	r.exit(pod, "file", 1)
	r.exit(pod, "log", 1)
	got := r.waitSummary("p", "Failed file:Error=1 log:Error=1")
	for i, want := range []string{"last words", "one\ntwo\n"} {
		if m := got.Status.ContainerStatuses[i].State.Terminated.Message; m != want {
			t.Errorf("got message %q, want %q", m, want)
		}
	}
}

func TestReadTerminationFile(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	writeFile(t, path("file"), "words")
	if err := syscall.Mkfifo(path("pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", path("link")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"file": "words", "pipe": "", "link": "", "none": "", ".": ""} {
		if got, _ := readTerminationFile(path(name)); string(got) != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
