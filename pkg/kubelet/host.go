package kubelet

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// HostConfig says what the kubelets of one process share.
type HostConfig struct {
	Caches *client.Caches // of pods, services, config maps and secrets; somebody else runs them
	Images *images.Store
	Clock  clock.Clock
	Source *clock.Source
	Dir    string  // holds volumes and logs; the first kubelet that needs it makes it
	Server *Server // serves logs and exec of all nodes; nil: nothing is served

	// PerNode watches the pods of each node apart instead of all pods at once: for a few nodes whose API is far away.
	PerNode bool
}

// Host is the process that kubelets live in: it holds the watches, the queue of pods and the tick of the Leases that they
// share. Run it beside its kubelets.
type Host struct {
	HostConfig
	pods    *client.Cache[*corev1.Pod]  // nil with PerNode
	nodes   *client.Cache[*corev1.Node] // likewise
	refs    *references
	started time.Time

	mu       sync.Mutex
	kubelets map[string]*Kubelet // by node name
	workers  map[objects.Key][]*worker
	found    map[objects.Key][]finding // what the runtimes have
	wakePod  reconcile.Enqueue         // nil until the loop runs
	wakePost reconcile.Enqueue
	asleep   map[objects.Key]uint64 // keys that were woken before the loop ran
	doubted  map[objects.Key]uint64 // pods of which others say what their kubelets do not, and the revision of that

	posts posts
}

// byNode is the index of the pods by the node that they are bound to.
var byNode = client.NewIndex(nodeOf)

// NewHost returns a host without kubelets.
func NewHost(cfg HostConfig) (*Host, error) {
	if cfg.Caches == nil || cfg.Images == nil || cfg.Clock == nil || cfg.Source == nil || cfg.Dir == "" {
		return nil, errors.New("kubelet host: Caches, Images, Clock, Source and Dir are needed")
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	h := &Host{
		HostConfig: cfg, started: cfg.Clock.Now(),
		kubelets: map[string]*Kubelet{}, workers: map[objects.Key][]*worker{}, found: map[objects.Key][]finding{},
		asleep: map[objects.Key]uint64{}, doubted: map[objects.Key]uint64{},
	}
	h.refs = newReferences(h)
	if !cfg.PerNode {
		h.pods, h.nodes = cfg.Caches.Pods(), cfg.Caches.Nodes()
		h.pods.Subscribe(h.podChanged)
	}
	if cfg.Server != nil {
		cfg.Server.host = h
	}
	return h, nil
}

// makeFolders makes the host's folders. A container that runs as another user must reach its own volumes there, but find
// no others, where secrets are.
func (h *Host) makeFolders() error {
	for _, dir := range []struct {
		path string
		mode fs.FileMode
	}{{h.Dir, 0o711}, {filepath.Join(h.Dir, podsFolder), 0o711}, {filepath.Join(h.Dir, logsFolder), 0o700}} {
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return err
		}
		if err := os.Chmod(dir.path, dir.mode); err != nil {
			return err
		}
	}
	return nil
}

// The folders in a host's own: one of volumes for each pod by its UID, and one of logs by its full name.
const (
	podsFolder = "pods"
	logsFolder = "logs"
)

func nodeOf(pod *corev1.Pod) []string {
	if pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// Run works on the pods of the host's kubelets, and renews their Leases, until ctx ends.
func (h *Host) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	pods := reconcile.Loop{Name: "kubelet", Workers: podWorkers, Reconcile: h.syncKey, Sources: []reconcile.Source{h.podSource}}
	post := reconcile.Loop{Name: "podstatus", Workers: postWorkers, Reconcile: h.post, Sources: []reconcile.Source{h.postSource}}
	wg.Go(func() { h.heartbeat(ctx) })
	wg.Go(func() { _ = post.Run(ctx, h.Clock) }) // returns nil only
	err := pods.Run(ctx, h.Clock)
	wg.Wait()
	for _, w := range h.allWorkers() {
		w.wait()
	}
	return err
}

// How many pods are worked on, and how many statuses written, at the same time.
const (
	podWorkers  = 16
	postWorkers = 32
)

func (h *Host) podSource(_ context.Context, wake reconcile.Enqueue) {
	h.mu.Lock()
	asleep := h.asleep
	h.wakePod, h.asleep = wake, nil
	h.mu.Unlock()
	for key, revision := range asleep {
		wake(key, revision)
	}
}

func (h *Host) postSource(_ context.Context, wake reconcile.Enqueue) {
	h.mu.Lock()
	h.wakePost = wake
	h.mu.Unlock()
	for _, key := range h.posts.keys() {
		wake(key, 0)
	}
}

// wake asks for the pods of key to be looked at. revision is the change that asks for it, 0 for none.
func (h *Host) wake(key objects.Key, revision uint64) {
	h.mu.Lock()
	wake := h.wakePod
	if wake == nil {
		h.asleep[key] = max(h.asleep[key], revision)
	}
	h.mu.Unlock()
	if wake != nil {
		wake(key, revision)
	}
}

// podChanged wakes the pod's worker for what concerns a kubelet. The kubelets' own status writes do not; those of others
// are answered.
func (h *Host) podChanged(ch client.Change[*corev1.Pod]) {
	pod := ch.New
	if ch.Deleted() {
		pod = ch.Old
	}
	if pod.Spec.NodeName == "" || h.kubelet(pod.Spec.NodeName) == nil {
		return
	}
	if !ch.Added() && !ch.Deleted() && !concerns(ch.Old, ch.New) {
		h.hear(ch.New, ch.Revision)
		return
	}
	h.wake(ch.Key(), ch.Revision)
}

// concerns reports whether a change of a pod is more than a kubelet's own status.
func concerns(old, pod *corev1.Pod) bool {
	if old.UID != pod.UID || old.Generation != pod.Generation || old.Spec.NodeName != pod.Spec.NodeName ||
		(old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) ||
		!equalSeconds(old.DeletionGracePeriodSeconds, pod.DeletionGracePeriodSeconds) {
		return true
	}
	if len(pod.Spec.ReadinessGates) > 0 {
		return true
	}
	return !equalStrings(old.Labels, pod.Labels) || !equalStrings(old.Annotations, pod.Annotations)
}

func equalSeconds(a, b *int64) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func equalStrings(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

func (h *Host) kubelet(node string) *Kubelet {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kubelets[node]
}

func (h *Host) allKubelets() []*Kubelet {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*Kubelet, 0, len(h.kubelets))
	for _, k := range h.kubelets {
		out = append(out, k)
	}
	return out
}

func (h *Host) allWorkers() []*worker {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*worker, 0, len(h.workers))
	for _, same := range h.workers {
		out = append(out, same...)
	}
	return out
}

// pod returns the pod of key as the API last showed it.
func (h *Host) pod(key objects.Key) (*corev1.Pod, bool) {
	if h.pods != nil {
		return h.pods.Get(key)
	}
	for _, k := range h.allKubelets() {
		if pod, ok := k.pods.Get(key); ok {
			return pod, true
		}
	}
	return nil, false
}
