package kubelet

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
	"github.com/minikctl/minikctl/pkg/zpages"
)

// HostConfig configures a Host.
type HostConfig struct {
	Caches *client.Caches // of pods, services, config maps and secrets; the caller runs them
	Images *images.Store
	Clock  clock.Clock
	Source *clock.Source
	Dir    string            // of volumes and logs; created by the first kubelet that needs it
	Server *Server           // serves logs and exec of all nodes; nil: none
	Flags  map[string]string // of the process, for the server's /flagz

	// Settings are the fields of a KubeletConfiguration that the config sets, for the server's /configz.
	Settings map[string]any

	// Memory is the directory of volumes in memory, created with the first one; "": they are on disk.
	Memory string

	// ClusterDNS is the address of the cluster's DNS server; invalid: pods use the machine's resolvers.
	ClusterDNS netip.Addr

	// Stages decides which pods and nodes the kubelets of simulated nodes leave to Stages. nil: none.
	Stages Stages

	// PodUsers: each pod has a user of its own, which runs the containers whose user neither the pod nor the image names.
	PodUsers bool

	// PerNode opens a watch per node instead of one for all pods: for a few nodes with a remote API server.
	PerNode bool
}

// Host is what the kubelets of one process share: the watches, the queue of pods, the status manager and the timer of
// the Leases. Its Run runs beside that of its kubelets.
type Host struct {
	HostConfig
	pods    *client.Cache[*corev1.Pod]  // nil with PerNode
	nodes   *client.Cache[*corev1.Node] // nil with PerNode
	refs    *references
	zpages  *zpages.Component
	started time.Time

	mu              sync.Mutex
	kubelets        map[string]*Kubelet // by node name
	workers         map[objects.Key][]*podWorker
	statics         map[objects.Key]*corev1.Pod // read from files
	inRuntime       map[objects.Key][]runtimePod
	podQueue        reconcile.Enqueue // nil until the loop runs
	statusQueue     reconcile.Enqueue
	queuedBeforeRun map[objects.Key]uint64   // keys that were enqueued before the loop ran, with their revisions
	silent          map[objects.Key]struct{} // pods with a status that a silent simulated node does not write
	overwritten     map[objects.Key]uint64   // pods whose conditions another client has overwritten, with the revisions of those writes

	statuses *statusManager
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
		kubelets: map[string]*Kubelet{}, workers: map[objects.Key][]*podWorker{}, inRuntime: map[objects.Key][]runtimePod{},
		queuedBeforeRun: map[objects.Key]uint64{}, silent: map[objects.Key]struct{}{}, overwritten: map[objects.Key]uint64{}, statuses: newStatusManager(),
	}
	h.zpages = zpages.New("kubelet", clock.Machine(cfg.Clock), cfg.Flags, debugPaths[:])
	h.refs = newReferences(h)
	if cfg.Stages != nil {
		cfg.Stages.Follow(h.stagesChanged)
	}
	if !cfg.PerNode {
		h.pods, h.nodes = cfg.Caches.Pods(), cfg.Caches.Nodes()
		h.pods.Subscribe(h.podChanged)
		h.nodes.Subscribe(h.nodeChanged)
	}
	if cfg.Server != nil {
		cfg.Server.host = h
	}
	return h, nil
}

// machineClock is the clock of what does not follow the cluster's time: processes, their probes, hooks and logs, and retries.
func (h *Host) machineClock() clock.Clock { return clock.Machine(h.Clock) }

// makeDirs makes the host's directories. A container of another user can open its own volumes there, whose paths it has, and
// cannot list those of other pods.
func (h *Host) makeDirs() error {
	for _, dir := range []struct {
		path string
		mode fs.FileMode
	}{{h.Dir, 0o711}, {filepath.Join(h.Dir, podsDir), 0o711}, {filepath.Join(h.Dir, logsDir), 0o700}} {
		if err := os.MkdirAll(dir.path, dir.mode); err != nil {
			return err
		}
		if err := os.Chmod(dir.path, dir.mode); err != nil {
			return err
		}
	}
	return nil
}

// The directories in HostConfig.Dir: one with a directory of volumes per pod UID, and one with a directory of logs per pod.
const (
	podsDir = "pods"
	logsDir = "logs"
)

func nodeOf(pod *corev1.Pod) []string {
	if pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// Run syncs the pods of the host's kubelets, writes their statuses, and renews the nodes' Leases, until ctx ends.
func (h *Host) Run(ctx context.Context) error {
	ctx, work := clock.Begin(ctx, h.Clock, "start of the kubelets")
	defer work.End()
	var wg, subscribed sync.WaitGroup
	subscribed.Add(2)
	last := func(context.Context, reconcile.Enqueue) { subscribed.Done() }
	pods := reconcile.Loop{Name: "kubelet", Workers: podWorkers, Reconcile: h.syncKey, Sources: []reconcile.Source{h.podSource, last}}
	post := reconcile.Loop{Name: "podstatus", Workers: postWorkers, Reconcile: h.syncStatus, Sources: []reconcile.Source{h.statusSource, last}}
	wg.Go(func() { h.heartbeat(ctx) })
	wg.Go(func() { _ = post.Run(ctx, h.Clock) }) // it only returns nil
	wg.Go(func() {
		subscribed.Wait()
		work.End()
	})
	err := pods.Run(ctx, h.Clock)
	wg.Wait()
	for _, w := range h.allWorkers() {
		w.wait()
	}
	return err
}

// The numbers of pods that are synced, and of statuses that are written, at the same time.
const (
	podWorkers  = 16
	postWorkers = 32
)

func (h *Host) podSource(_ context.Context, enqueue reconcile.Enqueue) {
	h.mu.Lock()
	early := h.queuedBeforeRun
	h.podQueue, h.queuedBeforeRun = enqueue, nil
	h.mu.Unlock()
	for key, revision := range early {
		enqueue(key, revision)
	}
}

func (h *Host) statusSource(_ context.Context, enqueue reconcile.Enqueue) {
	h.mu.Lock()
	h.statusQueue = enqueue
	h.mu.Unlock()
	for _, key := range h.statuses.keys() {
		enqueue(key, 0)
	}
}

// enqueue requests a sync of the pods of key. revision is the change that triggers it, 0 for none.
func (h *Host) enqueue(key objects.Key, revision uint64) {
	h.mu.Lock()
	enqueue := h.podQueue
	if enqueue == nil {
		h.queuedBeforeRun[key] = max(h.queuedBeforeRun[key], revision)
	}
	h.mu.Unlock()
	if enqueue != nil {
		enqueue(key, revision)
	}
}

// podChanged enqueues a pod of this host's kubelets after a change. A change of the status alone is only compared with the
// kubelet's own.
func (h *Host) podChanged(ch client.Change[*corev1.Pod]) {
	pod := ch.New
	if ch.Deleted() {
		pod = ch.Old
	}
	k := h.kubelet(pod.Spec.NodeName)
	if pod.Spec.NodeName == "" || k == nil {
		return
	}
	if leavesRoom(ch) {
		defer k.retryResizes()
	}
	if !ch.Added() && !ch.Deleted() && !needsSync(ch.Old, ch.New) {
		h.observeStatus(ch.New, ch.Revision)
		return
	}
	h.enqueue(ch.Key(), ch.Revision)
}

// leavesRoom reports whether a change of a pod frees resources of its node.
func leavesRoom(ch client.Change[*corev1.Pod]) bool {
	return ch.Deleted() || !ch.Added() && isFinished(ch.New.Status.Phase) && !isFinished(ch.Old.Status.Phase)
}

// needsSync reports whether a change of a pod is more than a change of its status.
func needsSync(old, pod *corev1.Pod) bool {
	if old.UID != pod.UID || old.Generation != pod.Generation || old.Spec.NodeName != pod.Spec.NodeName ||
		(old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil) ||
		!equalSeconds(old.DeletionGracePeriodSeconds, pod.DeletionGracePeriodSeconds) {
		return true
	}
	if len(pod.Spec.ReadinessGates) > 0 {
		return true
	}
	return !maps.Equal(old.Labels, pod.Labels) || !maps.Equal(old.Annotations, pod.Annotations)
}

func equalSeconds(a, b *int64) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func (h *Host) kubelet(node string) *Kubelet {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kubelets[node]
}

func (h *Host) allKubelets() []*Kubelet {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.SortedFunc(maps.Values(h.kubelets), func(a, b *Kubelet) int { return cmp.Compare(a.Name, b.Name) })
}

// pod returns the pod to run under key: the static pod, or else that of the API.
func (h *Host) pod(key objects.Key) (*corev1.Pod, bool) {
	pod, ok := h.apiPod(key)
	if static := h.static(key); static != nil {
		return withMirror(static, pod), true
	}
	return pod, ok
}

// apiPod returns the pod of key from the watch.
func (h *Host) apiPod(key objects.Key) (*corev1.Pod, bool) {
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
