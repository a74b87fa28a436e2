package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// patchAttempts is how often the podCIDRs of a node are written before they are released and the node is retried with backoff.
const patchAttempts = 3

type nodeIPAM struct {
	client client.Client
	events *client.Recorder
	nodes  *client.Cache[*corev1.Node]

	mu     sync.Mutex
	loaded bool
	blocks []*cidrBlocks             // one for each cluster CIDR
	held   map[string][]netip.Prefix // by node, in the order of blocks
}

// NodeIPAM gives each node a podCIDR from each of the cluster's ranges, as kube-controller-manager's range allocator does with
// --allocate-node-cidrs. It does nothing without ranges.
func NodeIPAM(env controller.Env) reconcile.Loop {
	loop := reconcile.Loop{Name: "nodeipam", Workers: controller.Workers}
	if len(env.PodCIDRs.Cluster) == 0 {
		return loop
	}
	r := &nodeIPAM{client: env.Client, events: env.Events, nodes: env.Caches.Nodes(), held: map[string][]netip.Prefix{}}
	for i, cluster := range env.PodCIDRs.Cluster {
		b := newCIDRBlocks(cluster, env.PodCIDRs.Bits[i])
		if s := env.PodCIDRs.Services; s.IsValid() && s.Overlaps(cluster) {
			_ = b.occupy(s) // they overlap, so it can't fail
		}
		r.blocks = append(r.blocks, b)
	}
	loop.Sources = []reconcile.Source{reconcile.Watch(r.nodes)}
	loop.Reconcile = r.reconcile
	return loop
}

func (r *nodeIPAM) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	r.load(ctx)
	node, ok := r.nodes.Get(key)
	switch {
	case !ok:
		r.release(key.Name)
		return 0, nil
	case node.DeletionTimestamp != nil:
		return 0, nil
	case len(node.Spec.PodCIDRs) > 0:
		return 0, r.occupy(node)
	}
	cidrs, err := r.allocate(node.Name)
	if err != nil {
		r.recordStatus(ctx, node, "CIDRNotAvailable")
		return 0, err
	}
	return 0, r.assign(ctx, node, cidrs)
}

// load occupies the podCIDRs of all nodes before the first allocation.
func (r *nodeIPAM) load(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded {
		return
	}
	r.loaded = true
	for _, node := range r.nodes.List("", nil) {
		if err := r.occupyLocked(node); err != nil {
			slog.WarnContext(ctx, "the node's podCIDRs are not all of the cluster's ranges", "node", node.Name, "err", err)
		}
	}
}

func (r *nodeIPAM) occupy(node *corev1.Node) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.occupyLocked(node)
}

// occupyLocked marks the podCIDRs of a node as in use. It is idempotent.
func (r *nodeIPAM) occupyLocked(node *corev1.Node) error {
	cidrs, err := podCIDRsOf(node, len(r.blocks))
	if slices.Equal(cidrs, r.held[node.Name]) {
		return err
	}
	r.releaseLocked(node.Name)
	for i, c := range cidrs {
		if failed := r.blocks[i].occupy(c); failed != nil {
			err = errors.Join(err, fmt.Errorf("failed to mark cidr[%v] at idx [%v] as occupied for node: %v: %w", c, i, node.Name, failed))
		}
	}
	if len(cidrs) > 0 {
		r.held[node.Name] = cidrs // release ignores those outside the ranges
	}
	return err
}

// podCIDRsOf parses the podCIDRs of a node. It returns those before the first that is invalid or beyond the number of ranges.
func podCIDRsOf(node *corev1.Node, ranges int) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for i, text := range node.Spec.PodCIDRs {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return out, fmt.Errorf("failed to parse node %s, CIDR %s", node.Name, text)
		}
		if i >= ranges {
			return out, fmt.Errorf("node:%s has an allocated cidr: %v at index:%v that does not exist in cluster cidrs configuration", node.Name, text, i)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// allocate returns a block of each range for a node. A node whose last write may have arrived has the same ones again.
func (r *nodeIPAM) allocate(name string) ([]netip.Prefix, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if held := r.held[name]; len(held) > 0 {
		return held, nil
	}
	var out []netip.Prefix
	for i, b := range r.blocks {
		p, err := b.allocate()
		if err != nil {
			for j, taken := range out {
				r.blocks[j].release(taken)
			}
			return nil, fmt.Errorf("failed to allocate cidr from cluster cidr at idx:%v: %w", i, err)
		}
		out = append(out, p)
	}
	r.held[name] = out
	return out, nil
}

// assign writes the podCIDRs of a node. It releases them if the server has refused them.
func (r *nodeIPAM) assign(ctx context.Context, node *corev1.Node, cidrs []netip.Prefix) error {
	texts := make([]string, len(cidrs))
	for i, c := range cidrs {
		texts[i] = c.String()
	}
	data, err := json.Marshal(map[string]any{"spec": corev1.NodeSpec{PodCIDR: texts[0], PodCIDRs: texts}})
	if err != nil {
		return err
	}
	for range patchAttempts {
		var out runtime.Object
		out, err = r.client.Patch(ctx, client.In(client.Nodes, controller.KeyOf(node)), client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
		if err == nil {
			if written, ok := out.(*corev1.Node); ok {
				r.nodes.Put(written)
			}
			return nil
		}
		if apierrors.IsNotFound(err) {
			r.release(node.Name)
			return err
		}
	}
	r.recordStatus(ctx, node, "CIDRAssignmentFailed")
	if !apierrors.IsServerTimeout(err) { // after a timeout the node may have them
		r.release(node.Name)
	}
	return fmt.Errorf("failed to patch node CIDR: %w", err)
}

func (r *nodeIPAM) recordStatus(ctx context.Context, node *corev1.Node, status string) {
	r.events.Event(ctx, node, corev1.EventTypeNormal, status, fmt.Sprintf("Node %s status is now: %s", node.Name, status))
}

func (r *nodeIPAM) release(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releaseLocked(name)
}

// releaseLocked frees what a node holds.
func (r *nodeIPAM) releaseLocked(name string) {
	for i, c := range r.held[name] {
		r.blocks[i].release(c)
	}
	delete(r.held, name)
}
