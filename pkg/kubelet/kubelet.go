package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

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
	Name        string
	Labels      map[string]string // beside those that every node has
	Annotations map[string]string
	Taints      []corev1.Taint      // given when the node is first registered
	Capacity    corev1.ResourceList // over the machine's own
	Allocatable corev1.ResourceList // over the capacity
	Address     string              // where its kubelet answers and what its host-network pods have; "": 127.0.0.1
	Tier        Tier
}

// Config says what one kubelet is made of.
type Config struct {
	Node    NodeConfig
	Host    *Host
	Client  client.Client // with the node's identity, system:node:NAME
	Runtime Runtime
}

// Kubelet runs the pods of one node.
type Kubelet struct {
	NodeConfig
	host     *Host
	client   client.Client
	runtime  Runtime
	pods     *client.Cache[*corev1.Pod]
	nodes    *client.Cache[*corev1.Node] // has this one among others
	recorder *client.Recorder            // nil on a simulated node, whose containers are not worth an Event
	machine  machine

	admission sync.Mutex // held while a pod is admitted

	listing sync.Mutex // holds a listing of the runtime and its storing together
	mu      sync.Mutex
	seen    map[types.UID]Pod // as the runtime last showed them
	node    *corev1.Node      // as the API last answered
	lease   *coordinationv1.Lease
	gives   []Feature // what the runtime says of itself
}

// New returns the kubelet of one node. It does nothing until it runs.
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
		seen: map[types.UID]Pod{}, machine: readMachine(h.Dir),
	}
	if !k.Tier.Simulated {
		if err := h.makeFolders(); err != nil {
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
	}
	return k, nil
}

// Run registers the node and runs its pods until ctx ends. The pods' containers go on running: the next kubelet of the
// node, over the same runtime, takes them over.
func (k *Kubelet) Run(ctx context.Context) error {
	if err := k.registerUntilDone(ctx); err != nil {
		return nil // only ctx ends it
	}
	found := k.list(ctx) // before a worker looks at what runs, and takes for lost what nobody has listed
	k.host.add(k)
	defer k.host.drop(k)
	if k.recorder != nil {
		var recording sync.WaitGroup
		defer recording.Wait()
		recording.Go(func() { _ = k.recorder.Run(ctx) }) // ends with ctx, without an error
		node := k.currentNode()
		k.recorder.Event(ctx, node, corev1.EventTypeNormal, "Starting", "Starting kubelet.")
		k.recorder.Event(ctx, node, corev1.EventTypeNormal, "NodeReady", "Node "+k.Name+" status is now: NodeReady")
	}
	select {
	case <-k.pods.Synced():
	case <-ctx.Done():
		return nil
	}
	for _, key := range found {
		k.host.wake(key, 0)
	}
	k.observe(ctx)
	for _, pod := range k.pods.ByIndex(byNode, k.Name) {
		k.host.wake(keyOf(pod), revisionOf(pod))
	}
	if err := k.postFeatures(ctx); err != nil && ctx.Err() == nil {
		slog.WarnContext(ctx, "cannot post what the runtime gives", "node", k.Name, "err", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-k.runtime.Changed():
			if !open {
				return fmt.Errorf("kubelet %s: the runtime has ended", k.Name)
			}
			k.observe(ctx)
		}
	}
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

// observe lists the runtime's pods and wakes the workers of those that have changed.
func (k *Kubelet) observe(ctx context.Context) {
	for _, key := range k.list(ctx) {
		k.host.wake(key, 0)
	}
}

// list takes over what the runtime shows and returns the keys of the pods that differ from before.
func (k *Kubelet) list(ctx context.Context) []objects.Key {
	k.listing.Lock()
	defer k.listing.Unlock()
	pods, err := k.runtime.Pods(ctx)
	if err != nil {
		if ctx.Err() == nil {
			slog.WarnContext(ctx, "runtime cannot list its pods", "node", k.Name, "err", err)
		}
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	next := make(map[types.UID]Pod, len(pods))
	var changed []objects.Key
	for _, pod := range pods {
		next[pod.UID] = pod
		old, ok := k.seen[pod.UID]
		if !ok {
			k.host.find(pod.key(), finding{pod.UID, k})
		}
		if !ok || !sameContainers(old.Containers, pod.Containers) {
			changed = append(changed, pod.key())
		}
	}
	for uid, old := range k.seen {
		if _, ok := next[uid]; !ok {
			k.host.lose(old.key(), uid)
			changed = append(changed, old.key())
		}
	}
	k.seen = next
	return changed
}

// look lists the runtime again on behalf of the worker of key, which need not be woken for what it is looking at.
func (k *Kubelet) look(ctx context.Context, key objects.Key) {
	for _, other := range k.list(ctx) {
		if other != key {
			k.host.wake(other, 0)
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

// view returns the pod as the runtime last showed it.
func (k *Kubelet) view(uid types.UID) (Pod, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	pod, ok := k.seen[uid]
	return pod, ok
}

// registerUntilDone registers the node, trying again with growing pauses as long as the API cannot be reached.
func (k *Kubelet) registerUntilDone(ctx context.Context) error {
	const first, last = 100 * time.Millisecond, 7 * time.Second
	for pause := first; ; pause = min(2*pause, last) {
		err := k.register(ctx)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		slog.WarnContext(ctx, "cannot register node, trying again", "node", k.Name, "err", err, "pause", pause)
		if err := clock.Sleep(ctx, k.host.Clock, pause); err != nil {
			return err
		}
	}
}
