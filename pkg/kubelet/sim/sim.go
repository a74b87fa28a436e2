// Package sim owns the runtime of simulated nodes, which runs no programs. A container runs from its start until it is
// stopped, or until a rule of its pod ends it. A container of a Job's pod without a rule succeeds after 100 ms. Pods are kept in memory
// only. They need no goroutine and no timer. Their addresses, from 10.244.0.0/16 on, are not reachable.
//
// Rules are annotations of the pod (rules.go has the table) that simulate programs which end, such as jobs and crash loops, which get ready
// late or never, images that can't be pulled, and load. A container that is stopped before it ends has exit code 143 (SIGTERM).
package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	k8sclock "k8s.io/utils/clock"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet"
)

// Cluster is what the simulated nodes of a daemon share: the clock, the addresses and the queue of containers that will
// end. It is safe for concurrent use.
type Cluster struct {
	clock clock.Clock
	jobs  jobs
	work  *clock.Work // a unit for each call of fire

	mu       sync.Mutex
	pool     *pool                           // of pods on nodes without a podCIDR
	pools    map[netip.Prefix]*pool          // by podCIDR
	reserved map[types.UID]netip.Addr        // of pods that are not started
	owned    map[types.UID]map[*pod]struct{} // by the UID of their controller
	ends     queue                           // of all nodes, the earliest first
	timer    k8sclock.Timer
	due      time.Time // when timer fires; zero: never
}

// NewCluster returns a cluster with no nodes. The client reads Jobs and changes their annotations; it may be nil if no pod of a Job has a
// rule that fails containers.
func NewCluster(clk clock.Clock, cl client.Client) *Cluster {
	return &Cluster{
		clock: clk, jobs: jobs{cl, clock.Machine(clk)}, work: clock.NewWork(clk, "simulated containers"),
		pool: newPool(defaultBase, defaultSize), pools: map[netip.Prefix]*pool{},
		reserved: map[types.UID]netip.Addr{}, owned: map[types.UID]map[*pod]struct{}{},
	}
}

// Runtime implements kubelet.Nodes: it returns the runtime of a new node.
func (c *Cluster) Runtime(string) kubelet.Runtime {
	return &node{cluster: c, pods: map[types.UID]*pod{}, changed: make(chan struct{}, 1)}
}

// New returns the runtime of the only node of a new Cluster without a client.
func New(clk clock.Clock) kubelet.Runtime { return NewCluster(clk, nil).Runtime("") }

// Close implements kubelet.Nodes. The pods of simulated nodes end with their Cluster.
func (c *Cluster) Close() error { return nil }

var (
	_ kubelet.Runtime   = (*node)(nil)
	_ kubelet.Meter     = (*node)(nil)
	_ kubelet.Simulator = (*node)(nil)
)

type node struct {
	cluster *Cluster
	changed chan struct{}
	dirty   atomic.Bool        // changed since the last TakeChanges
	pods    map[types.UID]*pod // guarded by cluster.mu
}

// pod is a started pod. Listings share its containers: a change replaces the slice.
type pod struct {
	kubelet.Pod
	addr netip.Addr
	from *pool // of addr
}

// ErrNoPod is the error for a pod that is not started.
var ErrNoPod = errors.New("no such pod")

// ErrRunning is the error for the removal of a running container.
var ErrRunning = errors.New("the container is running")

// Changed implements kubelet.Runtime.
func (n *node) Changed() <-chan struct{} { return n.changed }

// HasChanges reports whether the pods have changed since the last TakeChanges.
func (n *node) HasChanges() bool { return n.dirty.Load() }

// TakeChanges is called before the kubelet lists the pods.
func (n *node) TakeChanges() { n.dirty.Store(false) }

func (n *node) hint() {
	n.dirty.Store(true)
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// Pods implements kubelet.Runtime.
func (n *node) Pods(context.Context) ([]kubelet.Pod, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	all := make([]kubelet.Pod, 0, len(n.pods))
	for _, p := range n.pods {
		all = append(all, p.Pod)
	}
	slices.SortFunc(all, func(a, b kubelet.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return all, nil
}

// StartPod implements kubelet.Runtime.
func (n *node) StartPod(_ context.Context, spec kubelet.PodSpec) (kubelet.Pod, error) {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := n.pods[spec.UID]; p != nil {
		return p.Pod, nil
	}
	p := &pod{Pod: kubelet.Pod{PodSpec: spec, Started: c.clock.Now()}}
	if !spec.HostNetwork {
		from := c.pool
		addr, ok := c.reserved[spec.UID]
		delete(c.reserved, spec.UID)
		var err error
		if !ok {
			from = c.poolOf(spec.PodCIDR)
			addr, err = from.allocate()
		}
		if err != nil {
			return kubelet.Pod{}, fmt.Errorf("start pod %s/%s: %w", spec.Namespace, spec.Name, err)
		}
		p.addr, p.from, p.IP = addr, from, addr.String()
	}
	n.pods[spec.UID] = p
	c.own(p)
	n.hint()
	return p.Pod, nil
}

// StopPod implements kubelet.Runtime.
func (n *node) StopPod(_ context.Context, uid types.UID) error {
	c := n.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := n.pods[uid]; p != nil {
		if p.from != nil {
			p.from.release(p.addr)
		}
		delete(n.pods, uid)
		c.disown(p)
		n.hint()
	}
	return nil
}

// Start implements kubelet.Runtime.
func (n *node) Start(ctx context.Context, uid types.UID, spec kubelet.ContainerSpec) (kubelet.ContainerID, error) {
	c := n.cluster
	c.mu.Lock()
	p, err := n.started(uid, spec.Name)
	c.mu.Unlock()
	if err != nil {
		return "", err
	}
	if err := check(p.Annotations); err != nil {
		return "", err
	}
	h, err := c.history(ctx, p.Pod, spec) // may make requests
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, err = n.started(uid, spec.Name); err != nil {
		return "", err
	}
	now := c.clock.Now()
	id := kubelet.ContainerID(string(uid) + "_" + spec.Name + "_" + strconv.Itoa(spec.Attempt))
	p.Containers = append(slices.Clip(p.Containers), kubelet.Container{
		ID: id, Name: spec.Name, Attempt: spec.Attempt, Image: spec.Image, Started: now, Running: true,
	})
	if e := endOf(&p.PodSpec, spec.Name, h); e.ends {
		c.endAt(now.Add(e.after), n, id, e.code)
	}
	n.hint()
	return id, nil
}

// started returns a pod whose container is started. The caller holds the cluster's mu.
func (n *node) started(uid types.UID, container string) (*pod, error) {
	p := n.pods[uid]
	if p == nil {
		return nil, fmt.Errorf("start container %s: pod %s: %w", container, uid, ErrNoPod)
	}
	return p, nil
}

const (
	terminated = 128 + 15
	sigterm    = 15
)

// Stop implements kubelet.Runtime.
func (n *node) Stop(_ context.Context, id kubelet.ContainerID, _ time.Duration) error {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if c := n.find(id); c != nil && c.Running {
		n.end(id, n.cluster.clock.Now(), terminated, sigterm)
	}
	return nil
}

// end stores the end of a container at a time. The caller holds the cluster's mu.
func (n *node) end(id kubelet.ContainerID, at time.Time, code, signal int) {
	p := n.pods[owner(id)]
	p.Containers = slices.Clone(p.Containers)
	c := n.find(id)
	c.Running, c.Finished, c.ExitCode, c.Signal = false, at, code, signal
	n.hint()
}

// find returns a container of the node, or nil. The caller holds the cluster's mu.
func (n *node) find(id kubelet.ContainerID) *kubelet.Container {
	p := n.pods[owner(id)]
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.Containers, func(c kubelet.Container) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return &p.Containers[i]
}

// owner returns the pod of a container.
func owner(id kubelet.ContainerID) types.UID {
	uid, _, _ := strings.Cut(string(id), "_")
	return types.UID(uid)
}

// Remove implements kubelet.Runtime.
func (n *node) Remove(_ context.Context, id kubelet.ContainerID) error {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	c := n.find(id)
	if c == nil {
		return nil
	}
	if c.Running {
		return fmt.Errorf("%s: %w", id, ErrRunning)
	}
	p := n.pods[owner(id)]
	p.Containers = slices.DeleteFunc(slices.Clone(p.Containers), func(c kubelet.Container) bool { return c.ID == id })
	n.hint()
	return nil
}
