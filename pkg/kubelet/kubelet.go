package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// NodeConfig describes a node.
type NodeConfig struct {
	Name         string
	Labels       map[string]string // in addition to those that every node has
	Annotations  map[string]string
	Taints       []corev1.Taint      // of a new Node; an existing one keeps its own
	Capacity     corev1.ResourceList // replaces that of the machine
	Allocatable  corev1.ResourceList // replaces the capacity
	Address      string              // of the node and its host-network pods; "": 127.0.0.1
	Tier         Tier
	BeingRemoved bool // the kubelet only ends the node's pods: it does not create the Node

	Eviction Eviction // of pods when the node's resources run out

	StaticPodPath string // a file or directory with pods that the node runs on its own; "": none
}

// Config configures a Kubelet.
type Config struct {
	Node    NodeConfig
	Host    *Host
	Client  client.Client // with the node's identity, system:node:NAME
	Runtime Runtime

	readPressure func(dir string) pressure // measures the machine; nil: as it is
}

// Kubelet runs the pods of one node.
type Kubelet struct {
	NodeConfig
	host     *Host
	client   client.Client
	runtime  Runtime
	pods     *client.Cache[*corev1.Pod]
	nodes    *client.Cache[*corev1.Node] // of all nodes, or with PerNode of this one
	recorder *client.Recorder            // nil on a simulated node, whose pods have no Events
	machine  machine

	admission sync.Mutex // held while a pod is admitted, or its resize decided
	resizes   resizeQueue

	listing  sync.Mutex // held from listing the runtime until the listing is stored
	mu       sync.Mutex
	seen     map[types.UID]Pod // the runtime's last listing; nil before the first
	node     *corev1.Node      // the last response of the API
	lease    *coordinationv1.Lease
	features []Feature // of the runtime

	shuttingDown bool                       // the node is not ready, and admits no pods
	pressures    []corev1.NodeConditionType // that are true

	readPressure func(dir string) pressure // measures the machine
	cpuTimes     cpuTimes                  // of the running pods

	woken chan struct{}          // signalled when the state of a simulated node has changed
	awake atomic.Bool            // it has changed since Run has last looked at it
	ready corev1.ConditionStatus // as of the last reportReady; used by Run only

	iterating atomic.Int64 // when the current iteration of the sync loop began, in Unix nanoseconds of the machine; 0: it waits
}

// New returns the kubelet of one node. It has no effect before Run.
func New(cfg Config) (*Kubelet, error) {
	if cfg.Node.Name == "" || cfg.Host == nil || cfg.Client == nil || cfg.Runtime == nil {
		return nil, errors.New("kubelet: Node.Name, Host, Client and Runtime are needed")
	}
	if cfg.Node.Address == "" {
		cfg.Node.Address = "127.0.0.1"
	}
	h := cfg.Host
	k := &Kubelet{
		NodeConfig: cfg.Node, host: h, client: cfg.Client, runtime: cfg.Runtime, pods: h.pods, nodes: h.nodes,
		machine: readMachine(h.Dir), woken: make(chan struct{}, 1), readPressure: cfg.readPressure,
	}
	if k.readPressure == nil {
		k.readPressure = readPressure
	}
	if err := CheckEviction(k.Eviction); err != nil {
		return nil, fmt.Errorf("kubelet %s: %w", k.Name, err)
	}
	if !k.Tier.Simulated {
		if err := h.makeDirs(); err != nil {
			return nil, fmt.Errorf("kubelet %s: %w", k.Name, err)
		}
		h.refs.prepare()
		k.recorder = client.NewRecorder(k.client, h.Clock, h.Source, "kubelet", k.Name)
	}
	if h.PerNode {
		k.pods = client.CacheWhere[*corev1.Pod](h.Caches, client.Pods, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", k.Name).String(),
		})
		k.pods.Subscribe(h.podChanged)
		k.nodes = client.CacheWhere[*corev1.Node](h.Caches, client.Nodes, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, k.Name).String(),
		})
		k.nodes.Subscribe(h.nodeChanged)
	}
	return k, nil
}

// Run registers the node and runs its pods until ctx ends. The containers keep running: the next kubelet of the node,
// with the same runtime, adopts them.
func (k *Kubelet) Run(ctx context.Context) error {
	ctx, work := clock.Begin(ctx, k.host.Clock, "kubelet")
	defer work.End()
	var recording sync.WaitGroup
	defer recording.Wait()
	record := func(r *client.Recorder) {
		recording.Go(func() { _ = r.Run(ctx) }) // ends with ctx, without an error
	}
	if k.recorder != nil {
		record(k.recorder)
	}
	k.waitForStages(ctx)
	if err := k.registerUntilDone(ctx, record); err != nil {
		return nil // only ctx ends it
	}
	if k.StaticPodPath != "" && !k.BeingRemoved {
		statics := &staticPods{}
		k.readStaticPods(statics, false)
		recording.Go(func() { k.followStaticPods(ctx, statics) })
	}
	k.host.add(k)
	defer k.host.drop(k)
	if k.recorder != nil {
		k.recorder.Event(ctx, k.currentNode(), corev1.EventTypeNormal, "Starting", "Starting kubelet.")
	}
	select {
	case <-k.pods.Synced():
	case <-ctx.Done():
		return nil
	}
	if !k.Tier.Simulated {
		recording.Go(func() { k.followPressure(ctx) })
	}
	return k.syncLoop(ctx, work)
}

// syncLoop lists the runtime's pods and reports the runtime's health, again after each hint of a change, until ctx ends. On a manual clock it is
// idle while there is no hint.
func (k *Kubelet) syncLoop(ctx context.Context, work *clock.Work) error {
	pending, take := k.awake.Load, func() { k.awake.Store(false) }
	r, known := k.runtime.(changes)
	if known {
		pending = func() bool { return k.awake.Load() || r.HasChanges() }
		take = func() {
			k.awake.Store(false)
			r.TakeChanges()
		}
	}
	for {
		turn, end := clock.TakeTurn(ctx, k.host.Clock, k.rank())
		take()
		k.iterating.Store(k.machineNow().UnixNano())
		retry := k.observe(turn)
		k.reportReady(turn)
		k.iterating.Store(0)
		end()
		ended := false
		work.Idle(pending, func() {
			for again := false; !again && !ended && ctx.Err() == nil; {
				select {
				case <-ctx.Done():
				case <-retry:
					again = true
				case <-k.woken:
					again = pending()
				case _, open := <-k.runtime.Changed():
					again, ended = !known || pending(), !open // the hint may be of changes that the last listing has shown
				}
			}
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case ended:
			return fmt.Errorf("kubelet %s: the runtime has ended", k.Name)
		}
	}
}

// maxIteration is how long an iteration of the sync loop may take, as in Kubernetes.
const maxIteration = 5 * time.Minute

// stalled reports whether the sync loop's current iteration takes too long.
func (k *Kubelet) stalled() bool {
	began := k.iterating.Load()
	return began != 0 && k.machineNow().Sub(time.Unix(0, began)) > maxIteration
}

func (k *Kubelet) machineNow() time.Time { return clock.Machine(k.host.Clock).Now() }

// rank is that of the kubelet's own turns, beside those of its pods.
func (k *Kubelet) rank() clock.Rank { return clock.Rank{Part: "kubelet", Key: k.Name} }

// A Runtime of simulated containers implements changes: it reports whether its pods have changed since the last TakeChanges.
type changes interface {
	HasChanges() bool
	TakeChanges()
}

func (h *Host) add(k *Kubelet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kubelets[k.Name] = k
}

func (h *Host) drop(k *Kubelet) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.kubelets[k.Name] == k {
		delete(h.kubelets, k.Name)
	}
}

// relistPeriod is the time after which a failed listing of the runtime is repeated.
const relistPeriod = 5 * time.Second

// observe is the relist of Kubernetes' PLEG: it lists the runtime's pods and enqueues those that have changed. After the first
// listing it enqueues all pods of the node. When the listing fails, the returned channel fires when it is time to repeat it.
func (k *Kubelet) observe(ctx context.Context) <-chan time.Time {
	first := !k.listed()
	changed, err := k.list(ctx)
	if err != nil {
		if ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot list the runtime's pods", "node", k.Name, "err", err)
		}
		return k.host.machineClock().After(relistPeriod)
	}
	for _, key := range changed {
		k.host.enqueue(key, 0)
	}
	if first {
		for _, pod := range k.pods.ByIndex(byNode, k.Name) {
			k.host.enqueue(keyOf(pod), objects.RevisionOf(pod))
		}
		for _, key := range k.host.staticKeys(k.Name) {
			k.host.enqueue(key, 0)
		}
	}
	return nil
}

// listed reports whether the runtime has listed its pods. Until then no worker runs: a pod that the runtime has not
// listed yet would look lost.
func (k *Kubelet) listed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.seen != nil
}

// list stores the runtime's pods and returns the keys of those that differ from the last listing.
func (k *Kubelet) list(ctx context.Context) ([]objects.Key, error) {
	k.listing.Lock()
	defer k.listing.Unlock()
	pods, err := k.runtime.Pods(ctx)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil {
		k.seen = make(map[types.UID]Pod, len(pods))
	}
	var changed []objects.Key
	for _, pod := range pods {
		old, ok := k.seen[pod.UID]
		if !k.Tier.Simulated {
			k.useClusterTime(pod, old)
		}
		k.seen[pod.UID] = pod
		if !ok {
			k.host.addRuntimePod(pod.key(), runtimePod{pod.UID, k})
		}
		if !ok || !sameContainers(old.Containers, pod.Containers) {
			changed = append(changed, pod.key())
		}
	}
	if len(k.seen) > len(pods) {
		changed = append(changed, k.dropStopped(pods)...)
	}
	return changed, nil
}

// dropStopped drops the pods that a listing does not have, and returns their keys. The caller holds mu.
func (k *Kubelet) dropStopped(listed []Pod) []objects.Key {
	running := make(map[types.UID]bool, len(listed))
	for _, pod := range listed {
		running[pod.UID] = true
	}
	var keys []objects.Key
	for uid, old := range k.seen {
		if !running[uid] {
			k.host.dropRuntimePod(old.key(), uid)
			delete(k.seen, uid)
			keys = append(keys, old.key())
		}
	}
	return keys
}

// useClusterTime replaces the machine times of a pod's containers by the cluster's. Those that old has stay as they are.
func (k *Kubelet) useClusterTime(pod, old Pod) {
	for i := range pod.Containers {
		c := &pod.Containers[i]
		j := slices.IndexFunc(old.Containers, func(o Container) bool { return o.ID == c.ID })
		if j >= 0 {
			c.Started = old.Containers[j].Started
		} else {
			c.Started = clock.At(k.host.Clock, c.Started)
		}
		switch {
		case c.Running:
		case j >= 0 && !old.Containers[j].Running:
			c.Finished = old.Containers[j].Finished
		default:
			c.Finished = clock.At(k.host.Clock, c.Finished)
		}
	}
}

// relist lists the runtime again for the worker of key, and enqueues all other pods that have changed.
func (k *Kubelet) relist(ctx context.Context, key objects.Key) {
	changed, err := k.list(ctx)
	if err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot list the runtime's pods", "node", k.Name, "err", err)
	}
	for _, other := range changed {
		if other != key {
			k.host.enqueue(other, 0)
		}
	}
}

func sameContainers(a, b []Container) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].ID != b[i].ID || a[i].Running != b[i].Running || !a[i].Finished.Equal(b[i].Finished) {
			return false
		}
	}
	return true
}

// view returns a pod of the last listing.
func (k *Kubelet) view(uid types.UID) (Pod, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pod, ok := k.seen[uid]
	return pod, ok
}

// registerUntilDone registers the node. While the API is unreachable or refuses the node, it retries with growing
// pauses. A refusal is also recorded as an Event of the node. record runs a recorder for that Event, because a
// simulated node has none.
func (k *Kubelet) registerUntilDone(ctx context.Context, record func(*client.Recorder)) error {
	const first, last = 100 * time.Millisecond, 7 * time.Second
	events := k.recorder
	for pause := first; ; pause = min(2*pause, last) {
		turn, end := clock.TakeTurn(ctx, k.host.Clock, k.rank())
		err := k.register(turn)
		end()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		slog.WarnContext(ctx, "cannot register node, trying again", "node", k.Name, "err", err, "pause", pause)
		if isRefusal(err) {
			if events == nil {
				events = client.NewRecorder(k.client, k.host.Clock, k.host.Source, "kubelet", k.Name)
				record(events)
			}
			// The Node may not exist. As in every kubelet's Events about its node, the UID is the node's name.
			events.Event(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: k.Name, UID: types.UID(k.Name)}},
				corev1.EventTypeWarning, "RegistrationRefused", "Cannot register node: "+err.Error())
		}
		if err := clock.Sleep(ctx, k.host.machineClock(), pause); err != nil {
			return err
		}
	}
}

// isRefusal reports whether the API server has refused a request, and would refuse it again.
func isRefusal(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err)
}
