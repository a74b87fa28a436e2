package controller

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

// claimAction is what an owner does with an object that its selector may match.
type claimAction int

const (
	ignore  claimAction = iota // another owner controls it, or the owner may not adopt it
	keep                       // the owner controls it and the selector matches
	adopt                      // no owner controls it and the selector matches
	release                    // the owner controls it and the selector no longer matches
)

// actionFor decides what owner does with obj, which its selector matches or not.
func actionFor(owner metav1.Object, matches bool, obj metav1.Object) claimAction {
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

// Claimer adopts and releases objects of one resource for an owner. A Claimer is for one reconcile.
type Claimer struct {
	Client   client.Client
	Resource schema.GroupVersionResource // of the objects
	Owner    objects.Object
	Kind     schema.GroupVersionKind     // of the owner
	Owners   schema.GroupVersionResource // of the owner

	// Matches returns whether an object belongs to the owner, in addition to the selector. nil: all do.
	Matches func(metav1.Object) bool

	// Finalizer is added to objects that are adopted and removed from objects that are released. "": none.
	Finalizer string

	checked bool // the API server has confirmed that the owner may adopt
}

// Claim returns the candidates that the owner controls, after it has adopted orphans that the selector matches and
// released objects that it no longer matches. put gets each object that Claim has changed.
func Claim[T objects.Object](ctx context.Context, c *Claimer, selector labels.Selector, candidates []T, put func(T)) ([]T, error) {
	var claimed []T
	var errs []error
	for _, obj := range candidates {
		matches := selector.Matches(labels.Set(obj.GetLabels())) && (c.Matches == nil || c.Matches(obj))
		switch actionFor(c.Owner, matches, obj) {
		case keep:
			claimed = append(claimed, obj)
		case adopt:
			adopted, err := c.adopt(ctx, obj)
			if err != nil {
				errs = append(errs, err)
			} else if adopted != nil {
				put(adopted.(T))
				claimed = append(claimed, adopted.(T))
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
	return claimed, errors.Join(errs...)
}

// adopt adds a controller reference to obj. It returns nil without an error if obj no longer exists.
func (c *Claimer) adopt(ctx context.Context, obj objects.Object) (objects.Object, error) {
	if err := c.mayAdopt(ctx); err != nil {
		return nil, fmt.Errorf("adopt %s: %w", obj.GetName(), err)
	}
	metadata := map[string]any{
		"ownerReferences": []metav1.OwnerReference{*metav1.NewControllerRef(c.Owner, c.Kind)},
		"uid":             obj.GetUID(),
	}
	if c.Finalizer != "" {
		metadata["finalizers"] = []string{c.Finalizer}
	}
	return c.patch(ctx, obj, metadata)
}

// release removes the owner from obj's owner references. It returns nil without an error if obj no longer exists.
func (c *Claimer) release(ctx context.Context, obj objects.Object) (objects.Object, error) {
	metadata := map[string]any{
		"ownerReferences": []map[string]any{{"$patch": "delete", "uid": c.Owner.GetUID()}},
		"uid":             obj.GetUID(),
	}
	if c.Finalizer != "" {
		metadata["$deleteFromPrimitiveList/finalizers"] = []string{c.Finalizer}
	}
	return c.patch(ctx, obj, metadata)
}

func (c *Claimer) patch(ctx context.Context, obj objects.Object, metadata map[string]any) (objects.Object, error) {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, err
	}
	t := client.Target{Resource: c.Resource, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	out, err := c.Client.Patch(ctx, t, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) { // Invalid: another object of that name, with another UID
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return out.(objects.Object), nil
}

// mayAdopt returns an error unless the API server has the owner and the owner is not being deleted: the garbage collector
// would delete what an owner adopts then. A cache may be too old to decide this.
func (c *Claimer) mayAdopt(ctx context.Context) error {
	if c.checked {
		return nil
	}
	fresh, err := c.Client.Get(ctx, client.In(c.Owners, KeyOf(c.Owner)), metav1.GetOptions{})
	if err != nil {
		return err
	}
	if fresh.GetUID() != c.Owner.GetUID() {
		return fmt.Errorf("%s %s now has another UID", c.Kind.Kind, c.Owner.GetName())
	}
	if at := fresh.GetDeletionTimestamp(); at != nil {
		return fmt.Errorf("%s %s has just been deleted at %v", c.Kind.Kind, c.Owner.GetName(), at)
	}
	c.checked = true
	return nil
}
