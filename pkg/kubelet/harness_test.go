package kubelet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/objects"
)

// testTimeout bounds the time that a test waits for a state.
const testTimeout = time.Minute

// The tiers of the rig's nodes.
var (
	processTier = Tier{Name: "process", Version: "1"}
	simTier     = Tier{Name: "sim", Version: "1", Simulated: true}
)

// rig is a kubelet over a fake runtime and clock, against a real API server.
type rig struct {
	t       testing.TB
	env     *apiservertest.Env
	api     client.Client
	clock   *clocktesting.FakeClock
	runtime *fakeRuntime
	host    *Host
	kubelet *Kubelet
	stop    func()
}

// newRig runs a kubelet of the node "n1" until the test ends. The options change its configuration.
func newRig(t testing.TB, options ...func(*HostConfig, *Config)) *rig {
	t.Helper()
	env := apiservertest.New(t)
	r := &rig{t: t, env: env, api: env.Client("test"), clock: clocktesting.NewFakeClock(time.Now().Truncate(time.Second))}
	r.runtime = newFakeRuntime(r.clock)
	for _, ns := range []string{"default", corev1.NamespaceNodeLease} {
		_, err := r.api.Get(t.Context(), client.Target{Resource: client.Namespaces, Name: ns}, metav1.GetOptions{})
		if err != nil {
			r.create(client.Target{Resource: client.Namespaces}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
		}
	}
	r.create(client.Target{Resource: client.ServiceAccounts, Namespace: "default"},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}, AutomountServiceAccountToken: new(false)})
	r.start(options...)
	return r
}

// start runs a new kubelet over the rig's runtime.
func (r *rig) start(options ...func(*HostConfig, *Config)) {
	t := r.t
	store, err := images.New(images.Config{Map: map[string]images.Source{"nginx": {Image: "minikctl.dev/web"}}})
	if err != nil {
		t.Fatal(err)
	}
	hc := HostConfig{
		Caches: client.NewCaches(r.api, clock.Real()), Images: store, Clock: r.clock, Source: clock.NewSource(1), Dir: t.TempDir(),
	}
	kc := Config{Node: NodeConfig{Name: "n1", Tier: processTier}, Client: r.api, Runtime: r.runtime}
	for _, o := range options {
		o(&hc, &kc)
	}
	if r.host, err = NewHost(hc); err != nil {
		t.Fatal(err)
	}
	kc.Host = r.host
	if r.kubelet, err = New(kc); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{hc.Caches.Run, r.host.Run, r.kubelet.Run} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	r.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(r.stop)
	r.until("the node is ready", func() string {
		if r.host.kubelet("n1") == nil {
			return "it is not registered"
		}
		return ""
	})
}

func (r *rig) create(to client.Target, obj objects.Object) objects.Object {
	r.t.Helper()
	made, err := r.api.Create(r.t.Context(), to, obj, metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return made.(objects.Object)
}

// pod creates a pod that is bound to the rig's node, with one container named "c" unless spec has some.
func (r *rig) pod(name string, spec corev1.PodSpec) *corev1.Pod {
	r.t.Helper()
	if len(spec.Containers) == 0 {
		spec.Containers = []corev1.Container{{Name: "c"}}
	}
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			if list[i].Image == "" {
				list[i].Image = "nginx"
			}
		}
	}
	spec.NodeName = "n1"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: spec}
	return r.create(client.Target{Resource: client.Pods, Namespace: "default"}, pod).(*corev1.Pod)
}

func (r *rig) get(name string) *corev1.Pod {
	r.t.Helper()
	got, err := r.api.Get(r.t.Context(), client.Target{Resource: client.Pods, Namespace: "default", Name: name}, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return got.(*corev1.Pod)
}

// until waits for a condition. check returns what is missing, or "" when the condition holds.
func (r *rig) until(what string, check func() string) {
	r.t.Helper()
	missing := ""
	for end := time.Now().Add(testTimeout); time.Now().Before(end); {
		if missing = check(); missing == "" {
			return
		}
		select {
		case <-r.t.Context().Done():
		case <-time.After(2 * time.Millisecond):
		}
	}
	r.t.Fatalf("%s: %s", what, missing)
}

// waitSummary waits until the pod's summary is want and returns the pod.
func (r *rig) waitSummary(pod, want string) *corev1.Pod {
	r.t.Helper()
	var last *corev1.Pod
	r.until(pod, func() string {
		last = r.get(pod)
		if got := summary(last); got != want {
			return fmt.Sprintf("got  %s\nwant %s", got, want)
		}
		return ""
	})
	return last
}

// summary returns a pod's status in a line: its phase, then each container with its state, restarts and flags.
func summary(pod *corev1.Pod) string {
	if pod == nil {
		return "none"
	}
	out := []string{string(pod.Status.Phase)}
	if pod.Status.Reason != "" {
		out = append(out, "("+pod.Status.Reason+")")
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		text := s.Name + ":" + state(s.State)
		if s.LastTerminationState.Terminated != nil {
			text += "<" + state(s.LastTerminationState)
		}
		if s.RestartCount > 0 {
			text += fmt.Sprintf("#%d", s.RestartCount)
		}
		if s.Started != nil && *s.Started {
			text += "+started"
		}
		if s.Ready {
			text += "+ready"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func state(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return fmt.Sprintf("%s=%d", s.Terminated.Reason, s.Terminated.ExitCode)
	case s.Waiting != nil:
		return s.Waiting.Reason
	}
	return "?"
}

// exit ends the newest start of a container.
func (r *rig) exit(pod *corev1.Pod, name string, code int) {
	r.t.Helper()
	r.runtime.mu.Lock()
	p := r.runtime.pods[pod.UID]
	var last Container
	ok := false
	if p != nil {
		last, ok = p.latest(name)
	}
	r.runtime.mu.Unlock()
	if !ok {
		r.t.Fatalf("container %s was never started", name)
	}
	r.runtime.exit(last.ID, code)
}

// delete deletes a pod with the grace period of its spec.
func (r *rig) delete(name string) {
	r.t.Helper()
	if _, err := r.api.Delete(r.t.Context(), client.Target{Resource: client.Pods, Namespace: "default", Name: name}, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

// event waits for an Event about an object with that reason and message. A message that ends in "…" is a prefix.
func (r *rig) event(pod, reason, message string) {
	r.t.Helper()
	r.until("event", func() string {
		missing := r.missingEvent(pod, reason, message)
		if missing != "" {
			r.advance(10 * time.Millisecond) // the recorder pauses between two Events
		}
		return missing
	})
}

// missingEvent returns "" if there is such an Event, and otherwise a list of the existing ones.
func (r *rig) missingEvent(pod, reason, message string) string {
	list, err := r.api.List(r.t.Context(), client.Target{Resource: client.Events, Namespace: "default"}, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var seen []string
	for _, obj := range list.Items {
		e := obj.(*corev1.Event)
		if e.InvolvedObject.Name != pod {
			continue
		}
		start, open := strings.CutSuffix(message, "…")
		if e.Reason == reason && (e.Message == message || open && strings.HasPrefix(e.Message, start)) {
			return ""
		}
		seen = append(seen, e.Reason+": "+e.Message)
	}
	return fmt.Sprintf("no %s: %s among\n%s", reason, message, strings.Join(seen, "\n"))
}

// advance advances the clock.
func (r *rig) advance(d time.Duration) { r.clock.Step(d) }
