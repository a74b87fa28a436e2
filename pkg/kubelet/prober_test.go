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

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

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
	text := portText(t, srv.Listener)
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	web := corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1}
	web.HTTPGet = &corev1.HTTPGetAction{
		Host: "127.0.0.1", Port: intstr.FromString("http"), Path: "/ok?x=1", Scheme: corev1.URISchemeHTTP,
		HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "shop"}, {Name: "X-A", Value: "b"}},
	}
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // its certificate is not verified
	defer secure.Close()
	tls := corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1}
	tls.HTTPGet = &corev1.HTTPGetAction{Host: "127.0.0.1", Port: intstr.Parse(portText(t, secure.Listener)), Scheme: corev1.URISchemeHTTPS}
	tcp := corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1}
	tcp.TCPSocket = &corev1.TCPSocketAction{Host: "127.0.0.1", Port: intstr.FromInt(port)}
	r.pod("p", corev1.PodSpec{Containers: []corev1.Container{
		{Name: "http", ReadinessProbe: &web, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(port)}}},
		{Name: "tcp", ReadinessProbe: &tcp}, {Name: "tls", ReadinessProbe: &tls},
	}})
	r.waitSummaryAdvancing("p", "Running http:running+started+ready tcp:running+started+ready tls:running+started+ready")
	if got := received.Load(); got != "GET /ok?x=1 shop kube-probe/1.36 b" {
		t.Errorf("the server received %q", got)
	}
	code.Store(http.StatusServiceUnavailable)
	r.waitSummaryAdvancing("p", "Running http:running+started tcp:running+started+ready tls:running+started+ready")
	r.eventAdvancing("p", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
	srv.Close()
	r.waitSummaryAdvancing("p", "Running http:running+started tcp:running+started tls:running+started+ready")
	r.eventAdvancing("p", "Unhealthy", "Readiness probe failed: dial tcp 127.0.0.1:"+text+": connect: connection refused")
}

// eventAdvancing waits for an event while time passes: a probe may time out on a busy machine, and the next one finds what the event says.
func (r *rig) eventAdvancing(pod, reason, message string) {
	r.t.Helper()
	r.until("event", func() string {
		r.advance(250 * time.Millisecond)
		return r.missingEvent(pod, reason, message)
	})
}

// portText returns the port of a listener.
func portText(t *testing.T, l net.Listener) string {
	t.Helper()
	_, text, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestGRPCProbe probes a service of a server.
func TestGRPCProbe(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	services, srv := health.NewServer(), grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(srv, services)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	defer func() {
		srv.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	port, err := strconv.Atoi(portText(t, l))
	if err != nil {
		t.Fatal(err)
	}
	probe := corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 1, FailureThreshold: 1}
	probe.GRPC = &corev1.GRPCAction{Port: int32(port), Service: new("shop")}
	r.pod("p", corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "c", ReadinessProbe: &probe}}})
	r.waitSummary("p", "Running c:running+started")
	services.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_SERVING)
	r.waitSummaryAdvancing("p", "Running c:running+started+ready")
	services.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	r.waitSummaryAdvancing("p", "Running c:running+started")
	r.event("p", "Unhealthy", `Readiness probe failed: service unhealthy (responded with "NOT_SERVING")`)
}

// TestProbeTimeout: a check ends after the probe's timeout.
func TestProbeTimeout(t *testing.T) {
	r := newRig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never responds
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port, err := strconv.Atoi(portText(t, l))
	if err != nil {
		t.Fatal(err)
	}
	probe := corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(port)}}}
	r.pod("p", corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "c", ReadinessProbe: &probe}}})
	r.waitSummary("p", "Running c:running+started")
	r.until("an Event", func() string {
		r.advance(250 * time.Millisecond)
		return r.missingEvent("p", "Unhealthy", "Readiness probe failed: timeout: health rpc did not complete within 5s")
	})
}

// TestProbeTimes: when a container is probed, and how often until it is ready.
func TestProbeTimes(t *testing.T) {
	for _, test := range []struct {
		field string
		probe corev1.Probe
		first time.Duration // the earliest time of the first check after the start
		pause time.Duration // the shortest time between two checks
		ready int           // the least number of checks until the container is ready
	}{
		{"initialDelaySeconds", corev1.Probe{InitialDelaySeconds: 30, PeriodSeconds: 1}, 30 * time.Second, time.Second, 1},
		{"periodSeconds", corev1.Probe{PeriodSeconds: 20, SuccessThreshold: 3}, 0, 20 * time.Second, 3},
		{"successThreshold", corev1.Probe{PeriodSeconds: 1, SuccessThreshold: 4}, 0, time.Second, 4},
	} {
		t.Run(test.field, func(t *testing.T) {
			r := newRig(t)
			var mu sync.Mutex
			var checks []time.Duration
			began := r.clock.Now()
			r.runtime.exec = func(ContainerID, []string, Streams) (int, error) {
				mu.Lock()
				defer mu.Unlock()
				checks = append(checks, r.clock.Since(began))
				return 0, nil
			}
			test.probe.Exec, test.probe.TimeoutSeconds = &corev1.ExecAction{Command: []string{"check"}}, 1
			r.pod("p", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", ReadinessProbe: &test.probe}}})
			r.waitSummaryAdvancing("p", "Running c:running+started+ready")
			mu.Lock()
			defer mu.Unlock()
			if len(checks) < test.ready {
				t.Errorf("ready after %d checks, want %d", len(checks), test.ready)
			}
			for i, at := range checks { // a check may be late, and the next one is not
				if earliest := test.first + time.Duration(i)*test.pause; at < earliest {
					t.Errorf("check %d is after %v, want %v", i, at, earliest)
				}
			}
		})
	}
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
