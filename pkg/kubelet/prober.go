package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet/internal/nodemetrics"
	"github.com/minikctl/minikctl/pkg/kubelet/internal/probe"
	"github.com/minikctl/minikctl/pkg/trace"
)

// userAgent is the User-Agent of probes and hooks.
const userAgent = "kube-probe/1.36"

// prober runs the probes of a pod's containers and keeps their results.
type prober struct {
	*podScope

	mu      sync.Mutex
	results map[ContainerID]*probeResult
	kills   map[ContainerID]*containerToKill // containers whose startup or liveness probe has failed
	cancels map[ContainerID]context.CancelFunc
	stages  []trace.Stage // of the probes that have passed since the last status

	checks nodemetrics.Probes
}

// probeResult is the outcome of a running container's probes.
type probeResult struct{ started, ready bool }

// sync starts the probes of containers that have started and stops those of containers that have ended. A positive duration requests
// another sync after it, for a simulated container that gets ready then.
func (p *prober) sync(ctx context.Context, pod *corev1.Pod, seen Pod) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var after time.Duration
	alive := map[ContainerID]bool{}
	for _, run := range seen.Containers {
		c, path := container(pod, run.Name)
		if c == nil || !run.Running {
			continue
		}
		alive[run.ID] = true
		if p.results[run.ID] == nil {
			p.start(ctx, pod, c, path, run)
		}
		if p.simulated() {
			after = soonest(after, p.simulate(pod, run))
		}
	}
	for id, cancel := range p.cancels {
		if !alive[id] {
			cancel()
			delete(p.cancels, id)
		}
	}
	for id := range p.results {
		if !alive[id] {
			delete(p.results, id)
			delete(p.kills, id)
		}
	}
	return after
}

// simulate sets the result of a simulated container, and returns how long it takes until the container is ready; 0: it is, or never
// will be. The caller holds p.mu.
func (p *prober) simulate(pod *corev1.Pod, run Container) time.Duration {
	s, ok := p.runtime().(Simulator)
	if !ok {
		return 0
	}
	after := s.ReadyAfter(pod, run.Name)
	left := max(0, after-p.clock().Since(run.Started))
	p.results[run.ID].ready = after >= 0 && left == 0
	return left
}

// stop stops all probes.
func (p *prober) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, cancel := range p.cancels {
		cancel()
		delete(p.cancels, id)
	}
}

// start starts the probes of a container. A container of an earlier kubelet keeps the result in its status until a probe
// changes it. The caller holds p.mu.
func (p *prober) start(ctx context.Context, pod *corev1.Pod, c *corev1.Container, path string, run Container) {
	r := &probeResult{started: c.StartupProbe == nil, ready: c.ReadinessProbe == nil}
	if p.simulated() {
		r.started, r.ready = true, true
	}
	put(&p.results, run.ID, r)
	if p.simulated() || c.StartupProbe == nil && c.ReadinessProbe == nil && c.LivenessProbe == nil {
		return
	}
	if old := anyStatusOf(&pod.Status, c.Name); old != nil && old.ContainerID == containerID(run) {
		r.started = r.started || old.Started != nil && *old.Started
		r.ready = r.ready || old.Ready
	}
	started := r.started
	ctx, cancel := context.WithCancel(ctx)
	put(&p.cancels, run.ID, cancel)
	w := probeWorker{prober: p, c: c, path: path, run: run}
	p.tasks.Go(func() { w.runAll(ctx, pod, started) })
}

// started reports whether the container's startup probe has passed.
func (p *prober) started(id ContainerID) bool { return p.result(id).started }

// result returns the outcome of a container's probes; the zero result before they have started.
func (p *prober) result(id ContainerID) probeResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.results[id]; r != nil {
		return *r
	}
	return probeResult{}
}

// unhealthy returns how to stop a container after a failed startup or liveness probe, nil for all others.
func (p *prober) unhealthy(id ContainerID) *containerToKill {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.kills[id]; k != nil {
		copied := *k
		return &copied
	}
	return nil
}

// takeStages returns the stages of the probes that have passed since the last call.
func (p *prober) takeStages() []trace.Stage {
	p.mu.Lock()
	defer p.mu.Unlock()
	stages := p.stages
	p.stages = nil
	return stages
}

// update changes the result of a container's probes and requests a sync if that is a change. stages are those that led to
// the change.
func (p *prober) update(id ContainerID, stages []trace.Stage, change func(*probeResult)) {
	p.mu.Lock()
	r := p.results[id]
	if r == nil {
		p.mu.Unlock()
		return
	}
	before := *r
	change(r)
	same := *r == before
	if !same {
		p.stages = append(p.stages, stages...)
	}
	p.mu.Unlock()
	if !same {
		p.enqueue()
	}
}

// requestKill stores that a container is unhealthy and requests a sync, which stops it.
func (p *prober) requestKill(id ContainerID, k containerToKill) {
	p.mu.Lock()
	put(&p.kills, id, &k)
	p.mu.Unlock()
	p.enqueue()
}

// probeWorker runs one probe of one running container.
type probeWorker struct {
	*prober
	kind string // "Startup", "Liveness" or "Readiness", as in Events
	spec *corev1.Probe
	c    *corev1.Container
	path string
	run  Container
}

// runAll runs the container's probes: the startup probe until it has passed, then the other two.
func (w probeWorker) runAll(ctx context.Context, pod *corev1.Pod, started bool) {
	if w.c.StartupProbe != nil && !started {
		s := w
		s.kind, s.spec = "Startup", w.c.StartupProbe
		if !s.loop(ctx, pod) {
			return
		}
	}
	if w.c.LivenessProbe != nil {
		l := w
		l.kind, l.spec = "Liveness", w.c.LivenessProbe
		w.tasks.Go(func() { l.loop(ctx, pod) })
	}
	if w.c.ReadinessProbe != nil {
		w.kind, w.spec = "Readiness", w.c.ReadinessProbe
		w.loop(ctx, pod)
	}
}

// The first check of a container that has just started is repeated within firstCheckTime, and only its last result
// counts: most programs respond after a few milliseconds, and the next check may be 10 s away.
const (
	firstCheckTime  = time.Second
	firstCheckPause = 10 * time.Millisecond
)

// loop runs the probe until ctx ends or the container is unhealthy, or until a startup probe has passed: then it returns
// true.
func (w probeWorker) loop(ctx context.Context, pod *corev1.Pod) bool {
	began := w.machineClock().Now()
	delay := time.Duration(w.spec.InitialDelaySeconds)*time.Second - w.clock().Since(w.run.Started)
	if clock.Sleep(ctx, w.machineClock(), delay) != nil {
		return false
	}
	period := time.Duration(max(w.spec.PeriodSeconds, 1)) * time.Second
	tick := w.machineClock().NewTicker(period)
	defer tick.Stop()
	result, text := w.firstCheck(ctx, pod, min(period, firstCheckTime))
	last, row := probe.Result(-1), 0
	for ctx.Err() == nil {
		success := result != probe.Failure
		w.record(ctx, pod, result, text)
		if success == (last != probe.Failure) && last >= 0 {
			row++
		} else {
			row = 1
		}
		last = result
		switch {
		case success && row == int(max(w.spec.SuccessThreshold, 1)):
			w.succeed(trace.Stage{Name: "probe", Start: began, Took: w.machineClock().Since(began)})
			if w.kind == "Startup" {
				return true
			}
		case !success && row == int(max(w.spec.FailureThreshold, 1)):
			if w.fail() {
				return false
			}
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C():
			result, text = w.check(ctx, pod)
		}
	}
	return false
}

// firstCheck repeats the first check with growing pauses until it succeeds or limit is over.
func (w probeWorker) firstCheck(ctx context.Context, pod *corev1.Pod, limit time.Duration) (probe.Result, string) {
	began := w.machineClock().Now()
	for pause := firstCheckPause; ; pause *= 2 {
		tried := w.machineClock().Now()
		result, text := w.try(ctx, pod)
		if result != probe.Failure || w.machineClock().Since(began)+pause > limit || w.clock().Since(w.run.Started) > 2*limit {
			w.count(ctx, pod, result, w.machineClock().Since(tried))
			return result, text
		}
		if clock.Sleep(ctx, w.machineClock(), pause) != nil {
			return result, text
		}
	}
}

// record records an Event about a failure or a warning.
func (w probeWorker) record(ctx context.Context, pod *corev1.Pod, result probe.Result, text string) {
	switch {
	case ctx.Err() != nil:
	case result == probe.Failure:
		w.event(ctx, pod, w.path, corev1.EventTypeWarning, "Unhealthy", w.kind+" probe failed: "+text)
	case result == probe.Warning:
		w.event(ctx, pod, w.path, corev1.EventTypeWarning, "ProbeWarning", w.kind+" probe warning: "+text)
	}
}

// succeed stores that the probe has reached its success threshold.
func (w probeWorker) succeed(stage trace.Stage) {
	w.update(w.run.ID, []trace.Stage{stage}, func(r *probeResult) {
		switch w.kind {
		case "Startup":
			r.started = true
		case "Readiness":
			r.ready = true
		}
	})
}

// fail stores that the probe has reached its failure threshold, and reports whether the container is stopped for it.
func (w probeWorker) fail() bool {
	if w.kind == "Readiness" {
		w.update(w.run.ID, nil, func(r *probeResult) { r.ready = false })
		return false
	}
	w.requestKill(w.run.ID, containerToKill{
		message: fmt.Sprintf("Container %s failed %s probe", w.c.Name, strings.ToLower(w.kind)),
		grace:   w.spec.TerminationGracePeriodSeconds,
	})
	return true
}

// check makes one check within the probe's timeout, and counts it.
func (w probeWorker) check(ctx context.Context, pod *corev1.Pod) (probe.Result, string) {
	began := w.machineClock().Now()
	result, text := w.try(ctx, pod)
	w.count(ctx, pod, result, w.machineClock().Since(began))
	return result, text
}

// count counts a check, unless it was interrupted.
func (w probeWorker) count(ctx context.Context, pod *corev1.Pod, result probe.Result, took time.Duration) {
	if ctx.Err() == nil {
		w.checks.Observe(nodemetrics.Probe{Namespace: pod.Namespace, Pod: pod.Name, UID: string(pod.UID), Container: w.c.Name, Kind: w.kind},
			result != probe.Failure, took)
	}
}

// try makes one check within the probe's timeout.
func (w probeWorker) try(ctx context.Context, pod *corev1.Pod) (probe.Result, string) {
	timeout := time.Duration(max(w.spec.TimeoutSeconds, 1)) * time.Second
	ctx, stop := w.kubelet.withTimeout(ctx, timeout)
	defer stop()
	switch h := w.spec.ProbeHandler; {
	case h.Exec != nil:
		return w.exec(ctx, w.kubelet.execCommand(w.c, h.Exec.Command), timeout)
	case h.HTTPGet != nil:
		u, err := w.httpURL(pod, w.c, h.HTTPGet)
		if err != nil {
			return probe.Failure, err.Error()
		}
		req, err := probe.NewRequest(ctx, u, h.HTTPGet.HTTPHeaders, userAgent)
		if err != nil {
			return probe.Failure, err.Error()
		}
		return w.withTimeoutMessage(ctx, func() (probe.Result, string) { return probe.HTTP(req) }, u.String())
	case h.TCPSocket != nil:
		port, err := portOf(w.c, h.TCPSocket.Port)
		if err != nil {
			return probe.Failure, err.Error()
		}
		return probe.TCP(ctx, net.JoinHostPort(w.host(pod, h.TCPSocket.Host), strconv.Itoa(port)))
	case h.GRPC != nil:
		service := ""
		if h.GRPC.Service != nil {
			service = *h.GRPC.Service
		}
		return probe.GRPC(ctx, net.JoinHostPort(w.host(pod, ""), strconv.Itoa(int(h.GRPC.Port))), service, userAgent, timeout)
	}
	return probe.Failure, "missing probe handler for " + logName(pod) + ":" + w.c.Name
}

// withTimeoutMessage makes a check. It replaces the message of a check that timed out by that of Kubernetes' kubelet.
func (w probeWorker) withTimeoutMessage(ctx context.Context, check func() (probe.Result, string), url string) (probe.Result, string) {
	result, text := check()
	if result == probe.Failure && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		text = fmt.Sprintf("Get %q: context deadline exceeded (Client.Timeout exceeded while awaiting headers)", url)
	}
	return result, text
}

func (w probeWorker) exec(ctx context.Context, cmd []string, timeout time.Duration) (probe.Result, string) {
	ex, err := w.kubelet.execer()
	if err != nil {
		return probe.Failure, err.Error()
	}
	var out output
	code, err := ex.Exec(ctx, w.run.ID, cmd, Streams{Out: &out, Err: &out})
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

// portOf returns the number of a port, which may be the name of a port of the container.
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
