package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

// verdict is what a controller does with an object that may be its own.
type verdict int

const (
	ignore  verdict = iota // somebody else's, or nobody's that we may take
	keep                   // ours
	adopt                  // nobody's, and the selector takes it
	release                // ours by its owner reference, but the selector no longer takes it
)

// judge decides what owner does with obj.
func judge(owner metav1.Object, selector labels.Selector, obj metav1.Object) verdict {
	matches := selector.Matches(labels.Set(obj.GetLabels()))
	ref := metav1.GetControllerOfNoCopy(obj)
	switch {
	case ref != nil && ref.UID != owner.GetUID():
		return ignore
	case ref != nil && matches:
		return keep
	case owner.GetDeletionTimestamp() != nil:
		return ignore
	case ref != nil:
		return release
	case matches && obj.GetDeletionTimestamp() == nil:
		return adopt
	}
	return ignore
}

// claimer takes over and lets go of the objects of one resource for an owner.
type claimer struct {
	client   client.Client
	resource schema.GroupVersionResource // of the objects
	owner    objects.Object
	kind     schema.GroupVersionKind // of the owner
	live     client.Target           // of the owner
	checked  bool                    // that the owner is not being deleted behind the cache's back
}

// claim returns those of candidates that are the owner's, after adopting and releasing. put is told of changed objects.
func claim[T objects.Object](ctx context.Context, c *claimer, selector labels.Selector, candidates []T, put func(T)) ([]T, error) {
	var mine []T
	var errs []error
	for _, obj := range candidates {
		switch judge(c.owner, selector, obj) {
		case keep:
			mine = append(mine, obj)
		case adopt:
			adopted, err := c.adopt(ctx, obj)
			if err != nil {
				errs = append(errs, err)
			} else if adopted != nil {
				put(adopted.(T))
				mine = append(mine, adopted.(T))
			}
		case release:
			released, err := c.release(ctx, obj)
			if err != nil {
				errs = append(errs, err)
			} else if released != nil {
				put(released.(T))
			}
		}
	}
	return mine, errors.Join(errs...)
}

// adopt makes the owner obj's controller. Nil without an error: obj is gone.
func (c *claimer) adopt(ctx context.Context, obj objects.Object) (objects.Object, error) {
	if err := c.check(ctx); err != nil {
		return nil, fmt.Errorf("adopt %s: %w", obj.GetName(), err)
	}
	return c.patch(ctx, obj, map[string]any{
		"ownerReferences": []metav1.OwnerReference{*metav1.NewControllerRef(c.owner, c.kind)},
		"uid":             obj.GetUID(),
	})
}

// release takes the owner out of obj's owner references. Nil without an error: obj is gone.
func (c *claimer) release(ctx context.Context, obj objects.Object) (objects.Object, error) {
	return c.patch(ctx, obj, map[string]any{
		"ownerReferences": []map[string]any{{"$patch": "delete", "uid": c.owner.GetUID()}},
		"uid":             obj.GetUID(),
	})
}

func (c *claimer) patch(ctx context.Context, obj objects.Object, metadata map[string]any) (objects.Object, error) {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	t := client.Target{Resource: c.resource, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	out, err := c.client.Patch(ctx, t, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) { // invalid: another one of that name, with another UID
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out.(objects.Object), nil
}

// check asks the server, not the cache, whether the owner is still there and not being deleted: what it adopts then would
// be deleted with it.
func (c *claimer) check(ctx context.Context) error {
	if c.checked {
		return nil
	}
	fresh, err := c.client.Get(ctx, c.live, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if fresh.GetUID() != c.owner.GetUID() {
		return fmt.Errorf("%s %s is another one by now", c.kind.Kind, c.live.Name)
	}
	if at := fresh.GetDeletionTimestamp(); at != nil {
		return fmt.Errorf("%s %s has just been deleted at %v", c.kind.Kind, c.live.Name, at)
	}
	c.checked = true
	return nil
}
