package kubelet

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	corev1 "k8s.io/api/core/v1"
)

// waitSummaryAdvancing is like waitSummary, but advances the clock while it waits.
func (r *rig) waitSummaryAdvancing(pod, want string) *corev1.Pod {
	r.t.Helper()
	var last *corev1.Pod
	r.until(pod, func() string {
		if last = r.get(pod); summary(last) == want {
			return ""
		}
		r.advance(250 * time.Millisecond)
		return "got  " + summary(last) + "\nwant " + want
	})
	return last
}

func execProbe(p corev1.Probe, cmd string) *corev1.Probe {
	p.Exec = &corev1.ExecAction{Command: []string{cmd}}
	p.PeriodSeconds, p.TimeoutSeconds = 1, 1
	return &p
}

func TestReadinessProbe(t *testing.T) {
	r := newRig(t)
	var ready atomic.Bool
	r.runtime.exec = func(_ ContainerID, _ []string, s Streams) (int, error) {
		if ready.Load() {
			return 0, nil
		}
		_, err := s.Out.Write([]byte("not yet"))
		return 3, err
	}
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", ReadinessProbe: execProbe(corev1.Probe{FailureThreshold: 2}, "check")}}})
	got := r.waitSummary("p", "Running c:running+started")
	if c := conditionOf(got, corev1.PodReady); c.Status != corev1.ConditionFalse || c.Reason != "ContainersNotReady" ||
		c.Message != "containers with unready status: [c]" {
		t.Errorf("got condition %+v", c)
	}
	r.until("an Event", func() string {
		r.advance(250 * time.Millisecond)
		return r.missingEvent("p", "Unhealthy", "Readiness probe failed: not yet")
	})
	ready.Store(true)
	r.waitSummaryAdvancing("p", "Running c:running+started+ready")
	ready.Store(false)
	r.waitSummaryAdvancing("p", "Running c:running+started")
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

func TestLivenessProbe(t *testing.T) {
	r := newRig(t)
	var checks, failing, failed atomic.Int64
	r.runtime.exec = func(id ContainerID, _ []string, _ Streams) (int, error) {
		checks.Add(1)
		if failing.Load() == 0 || !strings.HasSuffix(string(id), "_c_0") {
			return 0, nil
		}
		failed.Add(1)
		return 1, nil
	}
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", LivenessProbe: execProbe(corev1.Probe{FailureThreshold: 3, TerminationGracePeriodSeconds: new(int64(7))}, "check"),
	}}})
	r.waitSummary("p", "Running c:running+started+ready")
	r.until("checks", func() string {
		r.advance(250 * time.Millisecond)
		if checks.Load() < 3 {
			return "too few"
		}
		return ""
	})
	if got := summary(r.get("p")); got != "Running c:running+started+ready" {
		t.Fatalf("got %s while all is well", got)
	}
	failing.Store(1)
	r.waitSummaryAdvancing("p", "Running c:running<Error=143#1+started+ready")
	if n := failed.Load(); n != 3 {
		t.Errorf("restarted after %d failures, want 3", n)
	}
	r.event("p", "Killing", "Container c failed liveness probe, will be restarted")
	r.runtime.mu.Lock()
	defer r.runtime.mu.Unlock()
	for id, grace := range r.runtime.graces {
		if strings.HasSuffix(string(id), "_c_0") && grace != 7*time.Second {
			t.Errorf("stopped with a grace of %v, want the probe's 7s", grace)
		}
	}
}

func TestStartupProbe(t *testing.T) {
	r := newRig(t)
	var up atomic.Bool
	var others atomic.Int64
	r.runtime.exec = func(_ ContainerID, cmd []string, _ Streams) (int, error) {
		if cmd[0] == "started" {
			if up.Load() {
				return 0, nil
			}
			return 1, nil
		}
		others.Add(1)
		return 0, nil
	}
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{{
		Name: "c", StartupProbe: execProbe(corev1.Probe{FailureThreshold: 30}, "started"),
		LivenessProbe: execProbe(corev1.Probe{}, "live"), ReadinessProbe: execProbe(corev1.Probe{}, "ready"),
	}}})
	r.waitSummary("p", "Running c:running")
	r.until("an Event", func() string {
		r.advance(250 * time.Millisecond)
		return r.missingEvent("p", "Unhealthy", "Startup probe failed: ")
	})
	if n := others.Load(); n > 0 {
		t.Errorf("%d other probes before the container was started", n)
	}
	up.Store(true)
	r.waitSummaryAdvancing("p", "Running c:running+started+ready")
}

func TestNetworkProbes(t *testing.T) {
	r := newRig(t)
	var code atomic.Int64
	code.Store(http.StatusOK)
	var received atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		received.Store(req.Method + " " + req.URL.RequestURI() + " " + req.Host + " " + req.UserAgent() + " " + req.Header.Get("X-A"))
		w.WriteHeader(int(code.Load()))
	}))
	defer srv.Close()
	_, text, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	web := corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1}
	web.HTTPGet = &corev1.HTTPGetAction{
		Host: "127.0.0.1", Port: intstr.FromString("http"), Path: "/ok?x=1", Scheme: corev1.URISchemeHTTP,
		HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "shop"}, {Name: "X-A", Value: "b"}},
	}
	tcp := corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1}
	tcp.TCPSocket = &corev1.TCPSocketAction{Host: "127.0.0.1", Port: intstr.FromInt(port)}
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{
		{Name: "http", ReadinessProbe: &web, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(port)}}},
		{Name: "tcp", ReadinessProbe: &tcp},
	}})
	r.waitSummaryAdvancing("p", "Running http:running+started+ready tcp:running+started+ready")
	if got := received.Load(); got != "GET /ok?x=1 shop kube-probe/1.36 b" {
		t.Errorf("the server received %q", got)
	}
	code.Store(http.StatusServiceUnavailable)
	r.waitSummaryAdvancing("p", "Running http:running+started tcp:running+started+ready")
	r.event("p", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
	srv.Close()
	r.waitSummaryAdvancing("p", "Running http:running+started tcp:running+started")
	r.event("p", "Unhealthy", "Readiness probe failed: dial tcp 127.0.0.1:"+text+": connect: connection refused")
}

func TestOutputIsBounded(t *testing.T) {
	r := newRig(t)
	var kept atomic.Int64
	r.runtime.exec = func(_ ContainerID, _ []string, s Streams) (int, error) {
		var both sync.WaitGroup
		for _, w := range []io.Writer{s.Out, s.Err} { // as a runtime with two pipes does
			both.Go(func() {
				for range 100 {
					if n, err := w.Write(make([]byte, 1000)); n != 1000 || err != nil {
						t.Errorf("got %d, %v: the command would be held up", n, err)
					}
				}
			})
		}
		both.Wait()
		kept.Store(int64(len(fmt.Sprint(s.Out))))
		return 0, nil
	}
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", ReadinessProbe: execProbe(corev1.Probe{}, "check")}}})
	r.waitSummaryAdvancing("p", "Running c:running+started+ready")
	if n := kept.Load(); n != maxOutput {
		t.Errorf("%d bytes are kept, want %d", n, maxOutput)
	}
}
