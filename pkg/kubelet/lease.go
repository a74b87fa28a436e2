package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
)

// A kubelet renews its node's Lease at each renewInterval. It posts the node's whole status at each postInterval, and with
// the next renewal when the API shows another Ready status.
const (
	leaseDuration = 40 * time.Second
	renewInterval = 10 * time.Second
	postInterval  = 5 * time.Minute
	// maxRenewals bounds the concurrent requests of one tick; the API server commits concurrent writes together.
	maxRenewals = 256
)

// heartbeat renews the Leases of the host's nodes at each tick, and writes overwritten conditions of their pods again.
func (h *Host) heartbeat(ctx context.Context) {
	ctx, work := clock.Begin(ctx, h.Clock, "heartbeat of the nodes")
	defer work.End()
	posted := h.Clock.Now()
	beat := clock.NewBeat(h.Clock, renewInterval)
	onlyRenewed := false
	for beat.Sleep(ctx, onlyRenewed) == nil {
		post := h.Clock.Since(posted) >= postInterval
		if post {
			posted = h.Clock.Now()
		}
		turn, end := clock.TakeTurn(ctx, h.Clock, h.rank("heartbeat of the nodes"))
		onlyRenewed = h.renewAll(turn, post)
		onlyRenewed = !h.reassert() && onlyRenewed
		end()
	}
}

// rank is that of a host's turns: several hosts of a process have different nodes.
func (h *Host) rank(part string) clock.Rank {
	r := clock.Rank{Part: part}
	if all := h.allKubelets(); len(all) > 0 {
		r.Key = all[0].Name
	}
	return r
}

// renewAll renews the Leases, and posts the statuses of all nodes or of those whose status differs. It reports whether it has only renewed
// Leases, without an error.
func (h *Host) renewAll(ctx context.Context, post bool) (onlyRenewed bool) {
	var wg sync.WaitGroup
	var others atomic.Bool
	limit := make(chan struct{}, clock.AtOnce(ctx, maxRenewals))
	for _, k := range h.allKubelets() {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			if err := k.renew(ctx); err != nil && ctx.Err() == nil {
				others.Store(true)
				slog.WarnContext(ctx, "cannot renew lease", "node", k.Name, "err", err)
			}
			if !post && !k.readyDiffers() {
				return
			}
			others.Store(true)
			if err := k.repost(ctx); err != nil && ctx.Err() == nil {
				slog.WarnContext(ctx, "cannot post node status", "node", k.Name, "err", err)
			}
		})
	}
	wg.Wait()
	return !others.Load()
}

// repost writes the node's status. It registers a deleted node again, unless the node leaves the cluster.
func (k *Kubelet) repost(ctx context.Context) error {
	err := k.postNode(ctx)
	if apierrors.IsNotFound(err) {
		return k.register(ctx)
	}
	return err
}

func (k *Kubelet) leaseTarget() client.Target {
	return client.Target{Resource: client.Leases, Namespace: corev1.NamespaceNodeLease, Name: k.Name}
}

// renew renews the Lease from the API's last response, or after a conflict from the current one. A leaving node without a
// Node object needs no Lease, and a silent one renews none.
func (k *Kubelet) renew(ctx context.Context) error {
	if k.BeingRemoved && k.currentNode().UID == "" || k.down() {
		return nil
	}
	k.mu.Lock()
	last := k.lease
	k.mu.Unlock()
	lease, err := k.writeLease(ctx, last)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		if last, err = k.getLease(ctx); err == nil {
			lease, err = k.writeLease(ctx, last)
		}
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.lease = lease
	k.mu.Unlock()
	return nil
}

// getLease returns the Lease, nil if there is none.
func (k *Kubelet) getLease(ctx context.Context) (*coordinationv1.Lease, error) {
	got, err := k.client.Get(ctx, k.leaseTarget(), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return got.(*coordinationv1.Lease), nil
}

// writeLease renews the Lease last, or creates it if last is nil.
func (k *Kubelet) writeLease(ctx context.Context, last *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	t := k.leaseTarget()
	next := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: t.Name}}
	if last != nil {
		next = last.DeepCopy()
	}
	next.Spec.HolderIdentity = ptr.To(k.Name)
	next.Spec.LeaseDurationSeconds = ptr.To(int32(leaseDuration / time.Second))
	next.Spec.RenewTime = ptr.To(metav1.NewMicroTime(k.host.Clock.Now()))
	if node := k.currentNode(); len(next.OwnerReferences) == 0 && node != nil {
		next.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	}
	var got any
	var err error
	if last == nil {
		t.Name = ""
		got, err = k.client.Create(ctx, t, next, metav1.CreateOptions{})
	} else {
		got, err = k.client.Update(ctx, t, next, metav1.UpdateOptions{})
	}
	if err != nil {
		return nil, err
	}
	lease, ok := got.(*coordinationv1.Lease)
	if !ok {
		return nil, fmt.Errorf("write lease: the response is a %T", got)
	}
	return lease, nil
}
