package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet/internal/probe"
	"github.com/minikctl/minikctl/pkg/trace"
)

// userAgent is what probes say they are.
const userAgent = "kube-probe/1.36"

// probing is one probe of one running container.
type probing struct {
	*worker
	kind string // "Startup", "Liveness" or "Readiness", as Events say it
	spec *corev1.Probe
	c    *corev1.Container
	path string
	run  Container
}

// attend starts the probes of containers that run and ends those of containers that do not.
func (w *worker) attend(ctx context.Context, pod *corev1.Pod, seen Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	alive := map[ContainerID]bool{}
	for _, run := range seen.Containers {
		c, path := container(pod, run.Name)
		if c == nil || !run.Running {
			continue
		}
		alive[run.ID] = true
		if w.health[run.ID] == nil {
			w.care(ctx, pod, c, path, run)
		}
	}
	for id, stop := range w.probes {
		if !alive[id] {
			stop()
			delete(w.probes, id)
		}
	}
	for id := range w.health {
		if !alive[id] {
			delete(w.health, id)
			delete(w.sick, id)
		}
	}
}

// stopProbes ends all probes. The caller holds w.mu.
func (w *worker) stopProbes() {
	for id, stop := range w.probes {
		stop()
		delete(w.probes, id)
	}
}

// care begins to look after a container that has been started, or taken over from the last kubelet: then its status is
// what it was, until a probe says otherwise. The caller holds w.mu.
func (w *worker) care(ctx context.Context, pod *corev1.Pod, c *corev1.Container, path string, run Container) {
	h := &condition{started: c.StartupProbe == nil, ready: c.ReadinessProbe == nil}
	if w.Tier.Simulated {
		h.started, h.ready = true, true
	}
	w.health[run.ID] = h
	if w.Tier.Simulated || c.StartupProbe == nil && c.ReadinessProbe == nil && c.LivenessProbe == nil {
		return
	}
	old := statusOf(pod.Status.ContainerStatuses, c.Name)
	if old == nil {
		old = statusOf(pod.Status.InitContainerStatuses, c.Name)
	}
	if old != nil && old.ContainerID == containerID(run) {
		h.started = h.started || old.Started != nil && *old.Started
		h.ready = h.ready || old.Ready
	}
	ctx, w.probes[run.ID] = context.WithCancel(ctx)
	p := probing{worker: w, c: c, path: path, run: run}
	w.tasks.Go(func() { p.runAll(ctx, pod, h.started) })
}

// runAll runs the container's probes: the startup probe until it has passed, then the other two.
func (p probing) runAll(ctx context.Context, pod *corev1.Pod, started bool) {
	if p.c.StartupProbe != nil && !started {
		s := p
		s.kind, s.spec = "Startup", p.c.StartupProbe
		if !s.loop(ctx, pod) {
			return
		}
	}
	if p.c.LivenessProbe != nil {
		l := p
		l.kind, l.spec = "Liveness", p.c.LivenessProbe
		p.tasks.Go(func() { l.loop(ctx, pod) })
	}
	if p.c.ReadinessProbe != nil {
		p.kind, p.spec = "Readiness", p.c.ReadinessProbe
		p.loop(ctx, pod)
	}
}

// The first look at a container that is just starting is made several times within firstLook, and only the last counts:
// programs need a moment until they answer, and a probe with a period of 10 s would let them wait for as long.
const (
	firstLook = time.Second
	firstTry  = 10 * time.Millisecond
)

// loop probes until ctx ends, the container is to be restarted, or a startup probe has passed: then it returns true.
func (p probing) loop(ctx context.Context, pod *corev1.Pod) bool {
	began := p.host.Clock.Now()
	delay := time.Duration(p.spec.InitialDelaySeconds)*time.Second - p.host.Clock.Since(p.run.Started)
	if clock.Sleep(ctx, p.host.Clock, delay) != nil {
		return false
	}
	period := time.Duration(max(p.spec.PeriodSeconds, 1)) * time.Second
	tick := p.host.Clock.NewTicker(period)
	defer tick.Stop()
	result, text := p.look(ctx, pod, min(period, firstLook))
	last, row := probe.Result(-1), 0
	for ctx.Err() == nil {
		good := result != probe.Failure
		p.tell(ctx, pod, result, text)
		if good == (last != probe.Failure) && last >= 0 {
			row++
		} else {
			row = 1
		}
		last = result
		switch {
		case good && row == int(max(p.spec.SuccessThreshold, 1)):
			p.passed(trace.Stage{Name: "probe", Start: began, Took: p.host.Clock.Since(began)})
			if p.kind == "Startup" {
				return true
			}
		case !good && row == int(max(p.spec.FailureThreshold, 1)):
			if p.failed() {
				return false
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C():
			result, text = p.check(ctx, pod)
		}
	}
	return false
}

// look makes the first check, again and again until it succeeds or limit is over.
func (p probing) look(ctx context.Context, pod *corev1.Pod, limit time.Duration) (probe.Result, string) {
	began := p.host.Clock.Now()
	for pause := firstTry; ; pause *= 2 {
		result, text := p.check(ctx, pod)
		if result != probe.Failure || p.host.Clock.Since(began)+pause > limit || p.host.Clock.Since(p.run.Started) > 2*limit {
			return result, text
		}
		if clock.Sleep(ctx, p.host.Clock, pause) != nil {
			return result, text
		}
	}
}

// tell records what a probe found, when that is worth an Event.
func (p probing) tell(ctx context.Context, pod *corev1.Pod, result probe.Result, text string) {
	switch {
	case ctx.Err() != nil:
	case result == probe.Failure:
		p.event(ctx, pod, p.path, corev1.EventTypeWarning, "Unhealthy", p.kind+" probe failed: "+text)
	case result == probe.Warning:
		p.event(ctx, pod, p.path, corev1.EventTypeWarning, "ProbeWarning", p.kind+" probe warning: "+text)
	}
}

// passed takes over that the container is as it should be.
func (p probing) passed(stage trace.Stage) {
	p.set([]trace.Stage{stage}, func(h *condition) {
		switch p.kind {
		case "Startup":
			h.started = true
		case "Readiness":
			h.ready = true
		}
	})
}

// failed takes over that it is not, and reports whether the container has to be restarted.
func (p probing) failed() bool {
	if p.kind == "Readiness" {
		p.set(nil, func(h *condition) { h.ready = false })
		return false
	}
	grace := p.spec.TerminationGracePeriodSeconds
	p.mu.Lock()
	p.sick[p.run.ID] = &killing{
		message: fmt.Sprintf("Container %s failed %s probe", p.c.Name, strings.ToLower(p.kind)), grace: grace,
	}
	p.mu.Unlock()
	p.host.wake(p.key, 0)
	return true
}

// set changes what is known of the container, and wakes the pod's worker if that is news. The stages led to it.
func (p probing) set(stages []trace.Stage, change func(*condition)) {
	p.mu.Lock()
	h := p.health[p.run.ID]
	if h == nil {
		p.mu.Unlock()
		return
	}
	before := *h
	change(h)
	same := *h == before
	if !same {
		p.stages = append(p.stages, stages...)
	}
	p.mu.Unlock()
	if !same {
		p.host.wake(p.key, 0)
	}
}

// check makes one check within the probe's time.
func (p probing) check(ctx context.Context, pod *corev1.Pod) (probe.Result, string) {
	timeout := time.Duration(max(p.spec.TimeoutSeconds, 1)) * time.Second
	ctx, stop := p.within(ctx, timeout)
	defer stop()
	switch h := p.spec.ProbeHandler; {
	case h.Exec != nil:
		return p.exec(ctx, h.Exec.Command, timeout)
	case h.HTTPGet != nil:
		u, err := p.target(pod, p.c, h.HTTPGet)
		if err != nil {
			return probe.Failure, err.Error()
		}
		req, err := probe.NewRequest(ctx, u, h.HTTPGet.HTTPHeaders, userAgent)
		if err != nil {
			return probe.Failure, err.Error()
		}
		return p.slow(ctx, func() (probe.Result, string) { return probe.HTTP(req) }, u.String())
	case h.TCPSocket != nil:
		port, err := portOf(p.c, h.TCPSocket.Port)
		if err != nil {
			return probe.Failure, err.Error()
		}
		return probe.TCP(ctx, net.JoinHostPort(p.hostOf(pod, h.TCPSocket.Host), strconv.Itoa(port)))
	case h.GRPC != nil:
		service := ""
		if h.GRPC.Service != nil {
			service = *h.GRPC.Service
		}
		return probe.GRPC(ctx, net.JoinHostPort(p.hostOf(pod, ""), strconv.Itoa(int(h.GRPC.Port))), service, userAgent)
	}
	return probe.Failure, "missing probe handler for " + title(pod) + ":" + p.c.Name
}

// slow gives a check that ran out of time the words that kubelets have for it.
func (p probing) slow(ctx context.Context, check func() (probe.Result, string), url string) (probe.Result, string) {
	result, text := check()
	if result == probe.Failure && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		text = fmt.Sprintf("Get %q: context deadline exceeded (Client.Timeout exceeded while awaiting headers)", url)
	}
	return result, text
}

func (p probing) exec(ctx context.Context, cmd []string, timeout time.Duration) (probe.Result, string) {
	ex, err := p.execer()
	if err != nil {
		return probe.Failure, err.Error()
	}
	var out output
	code, err := ex.Exec(ctx, p.run.ID, cmd, Streams{Out: &out, Err: &out})
	switch {
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return probe.Failure, fmt.Sprintf("command timed out: %q timed out after %v", strings.Join(cmd, " "), timeout)
	case err != nil:
		return probe.Failure, err.Error()
	}
	if code != 0 {
		return probe.Failure, out.String()
	}
	return probe.Success, out.String()
}

// hostOf returns where to reach the pod.
func (w *worker) hostOf(pod *corev1.Pod, host string) string {
	if host != "" {
		return host
	}
	seen, _ := w.view(w.uid)
	return podIP(pod, seen, w.Address, pod.Status)
}

// target returns the URL of an HTTP check or hook.
func (w *worker) target(pod *corev1.Pod, c *corev1.Container, a *corev1.HTTPGetAction) (*url.URL, error) {
	port, err := portOf(c, a.Port)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(a.Path)
	if err != nil {
		u = &url.URL{Path: a.Path}
	}
	u.Scheme = strings.ToLower(string(a.Scheme))
	if u.Scheme == "" {
		u.Scheme = "http"
	}
	u.Host = net.JoinHostPort(w.hostOf(pod, a.Host), strconv.Itoa(port))
	return u, nil
}

// portOf resolves a port that may be the name of one of the container's.
func portOf(c *corev1.Container, p intstr.IntOrString) (int, error) {
	port := p.IntValue()
	if p.Type == intstr.String {
		for _, own := range c.Ports {
			if own.Name == p.StrVal {
				port = int(own.ContainerPort)
			}
		}
	}
	if port <= 0 || port > 65535 {
		return 0, fmt.Errorf("invalid port number: %v", p.String())
	}
	return port, nil
}
