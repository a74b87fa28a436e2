package kubelet

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// podScope is what the parts of a podWorker share: the identity of the pod, its kubelet, and the goroutines for which the
// worker waits before the host ends.
type podScope struct {
	kubelet *Kubelet
	uid     types.UID
	key     objects.Key
	tasks   sync.WaitGroup // hooks, stops and probes, which run beside sync
}

// put sets a key of a map and creates the map if needed. Most pods never use most maps of their worker.
func put[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// clock is the cluster's, and machineClock the machine's, which processes follow.
func (s *podScope) clock() clock.Clock        { return s.kubelet.host.Clock }
func (s *podScope) machineClock() clock.Clock { return s.kubelet.host.machineClock() }

// begin returns the Work of a task of a simulated pod. A settled cluster does not wait for processes.
func (s *podScope) begin(ctx context.Context) (context.Context, *clock.Work) {
	if !s.simulated() {
		return ctx, nil
	}
	return clock.Begin(ctx, s.clock(), "stops of simulated pods")
}

// takeTurn is clock.TakeTurn for a task of a simulated pod. container is "" for a task of the whole pod.
func (s *podScope) takeTurn(ctx context.Context, container string) (context.Context, func()) {
	if !s.simulated() {
		return ctx, func() {}
	}
	return clock.TakeTurn(ctx, s.clock(), clock.Rank{Part: "stops of simulated pods", Key: s.key.String() + " " + container})
}

func (s *podScope) runtime() Runtime { return s.kubelet.runtime }

func (s *podScope) simulated() bool { return s.kubelet.Tier.Simulated }

// seen returns the pod as the last listing of the runtime has it.
func (s *podScope) seen() (Pod, bool) { return s.kubelet.view(s.uid) }

// relist lists the runtime again. The calling worker reads the result with seen, so it is not enqueued.
func (s *podScope) relist(ctx context.Context) { s.kubelet.relist(ctx, s.key) }

// enqueue requests another sync of the pod.
func (s *podScope) enqueue() { s.kubelet.host.enqueue(s.key, 0) }

// event records an Event about the pod, or with a field path about one of its containers.
func (s *podScope) event(ctx context.Context, pod *corev1.Pod, fieldPath, kind, reason, message string) {
	if s.kubelet.recorder != nil && pod != nil {
		s.kubelet.recorder.EventAbout(ctx, pod, fieldPath, kind, reason, message)
	}
}

// podDir is the directory of the pod's volumes and termination messages.
func (s *podScope) podDir() string {
	return filepath.Join(s.kubelet.host.Dir, podsDir, string(s.uid))
}

// logDir is the directory of the logs of the pod's containers.
func (s *podScope) logDir(pod *corev1.Pod) string {
	return filepath.Join(s.kubelet.host.Dir, logsDir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// logPath is the log of one start of a container.
func (s *podScope) logPath(pod *corev1.Pod, name string, attempt int) string {
	return filepath.Join(s.logDir(pod), name, strconv.Itoa(attempt)+".log")
}

// host returns the given host of a probe or hook, or the pod's address when it is "".
func (s *podScope) host(pod *corev1.Pod, host string) string {
	if host != "" {
		return host
	}
	seen, _ := s.seen()
	return podIP(pod, seen, s.kubelet.Address, pod.Status)
}

// httpURL returns the URL of an HTTP probe or hook.
func (s *podScope) httpURL(pod *corev1.Pod, c *corev1.Container, a *corev1.HTTPGetAction) (*url.URL, error) {
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
	u.Host = net.JoinHostPort(s.host(pod, a.Host), strconv.Itoa(port))
	return u, nil
}
