package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/component-helpers/storage/volume"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// awaitBound waits until all waiting claims of a pod are bound, or until the plugin's timeout has passed on the cluster's clock. It returns
// an error if a claim will not be bound on this node. On a manual clock the binding cycle counts as idle while no claim changes.
func (b *volumeBinding) awaitBound(ctx context.Context, v nodeVolumes, node string) error {
	claims := slices.Clone(v.provision)
	for _, m := range v.bind {
		claims = append(claims, m.claim)
	}
	api, ok := b.handle.(scheduler.APIHandle)
	if !ok {
		return errors.New("the scheduler's Handle gives no access to the API")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer api.Clock().AfterFunc(b.timeout, func() { cancel(context.DeadlineExceeded) }).Stop()
	for {
		bound, err := watchClaims(ctx, api.Client(), client.Target{Resource: client.PersistentVolumeClaims, Namespace: claims[0].Namespace}, func(now map[string]*corev1.PersistentVolumeClaim) (bool, error) {
			return allBound(claims, now, len(v.provision), node)
		})
		switch {
		case ctx.Err() != nil && !bound:
			return context.Cause(ctx)
		case bound || err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			return err
		}
	}
}

// watchClaims calls done with the claims of a namespace by name, and again after each change, until it returns true or an error. It returns
// false without an error when the watch ends.
func watchClaims[T objects.Object](ctx context.Context, c client.Client, t client.Target, done func(map[string]T) (bool, error)) (bool, error) {
	list, err := c.List(ctx, t, metav1.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("list claims: %w", err)
	}
	now := map[string]T{}
	for _, obj := range list.Items {
		now[obj.GetName()] = obj.(T)
	}
	if ok, err := done(now); ok || err != nil {
		return ok, err
	}
	for ev, err := range c.Watch(ctx, t, metav1.ListOptions{ResourceVersion: list.ResourceVersion}) {
		if err != nil {
			return false, fmt.Errorf("watch claims: %w", err)
		}
		claim, ok := ev.Object.(T)
		if !ok {
			continue // a bookmark
		}
		now[claim.GetName()] = claim
		if ev.Type == watch.Deleted {
			delete(now, claim.GetName())
		}
		if ok, err := done(now); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// allBound reports whether all claims are bound now, and an error if one will not be bound on this node. The first ones are provisioned, the
// others are bound to volumes that exist.
func allBound(claims []*corev1.PersistentVolumeClaim, now map[string]*corev1.PersistentVolumeClaim, provisioned int, node string) (bool, error) {
	for i, old := range claims {
		claim := now[old.Name]
		switch {
		case claim == nil:
			notFound := apierrors.NewNotFound(client.PersistentVolumeClaims.GroupResource(), old.Name)
			return false, fmt.Errorf("failed to get claim %q from API server: %w", claimKey(old), notFound)
		case claim.UID != old.UID:
			return false, errors.New("claim " + claimKey(old) + " was replaced")
		case claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted):
			continue
		case i < provisioned && claim.Annotations[volume.AnnSelectedNode] == "":
			return false, fmt.Errorf("selectedNode annotation reset for PVC %q", claim.Name)
		case i < provisioned && claim.Annotations[volume.AnnSelectedNode] != node:
			return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
		}
		return false, nil
	}
	return true, nil
}
