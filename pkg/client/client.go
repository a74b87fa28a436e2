// Package client owns the only door to the API: the Client interface, the HTTP implementation of it, and Caches, which
// keep a component's local copies of what it watches.
//
// Every component (controllers, scheduler, kubelet) is given a Client and talks to nothing else. In the API server's own
// process the Client is the API server's: calls go straight to its verbs, with the same admission and authorization, and
// the objects handed out are those of its cache. So objects from a Client or a Cache are shared and must never be
// changed: copy first (DeepCopy). Objects passed in belong to the Client from then on.
package client

import (
	"context"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Client makes requests to the API under one identity. It is safe for concurrent use. Errors are
// *apierrors.StatusError, the same from every implementation; only where there was no answer at all are they others (the
// network's, the context's). Writes carry the context's trace.Report.
type Client interface {
	Get(ctx context.Context, t Target, opts metav1.GetOptions) (objects.Object, error)
	List(ctx context.Context, t Target, opts metav1.ListOptions) (List, error)

	// Watch yields changes after opts.ResourceVersion until ctx ends or the loop is left; AllowWatchBookmarks and
	// SendInitialEvents work as in the API. An error ends the sequence; expired ones (apierrors.IsResourceExpired,
	// IsGone) mean: list again. The sequence ending without an error means: watch again from where it was.
	Watch(ctx context.Context, t Target, opts metav1.ListOptions) iter.Seq2[Event, error]

	// Create and Update also serve subresources: the object is then that of the subresource (a Binding, a Scale).
	Create(ctx context.Context, t Target, obj runtime.Object, opts metav1.CreateOptions) (runtime.Object, error)
	Update(ctx context.Context, t Target, obj runtime.Object, opts metav1.UpdateOptions) (runtime.Object, error)
	Patch(ctx context.Context, t Target, p Patch, opts metav1.PatchOptions) (runtime.Object, error)

	// Delete deletes the object that t names, or with t.All all objects of t.Namespace. The object returned is nil where the
	// answer is only a Status.
	Delete(ctx context.Context, t Target, opts metav1.DeleteOptions) (runtime.Object, error)
}

// Target says what a request is about.
type Target struct {
	Resource    schema.GroupVersionResource
	Namespace   string // "" for cluster-scoped resources and for all namespaces
	Name        string
	Subresource string
	All         bool // of Delete: everything, since an empty name alone is more often a mistake
}

// Deletable returns an error unless t says what Delete is to delete.
func (t Target) Deletable() error {
	if (t.Name == "") != t.All {
		return apierrors.NewBadRequest("resource name may not be empty")
	}
	return nil
}

// In returns the target of key in resource.
func In(resource schema.GroupVersionResource, key objects.Key) Target {
	return Target{Resource: resource, Namespace: key.Namespace, Name: key.Name}
}

// Sub returns t's subresource.
func (t Target) Sub(name string) Target {
	t.Subresource = name
	return t
}

// Patch is a patch and its kind.
type Patch struct {
	Type types.PatchType
	Data []byte
}

// List is a page of objects. Items are shared.
type List struct {
	Items           []objects.Object
	ResourceVersion string
	Continue        string
	Remaining       *int64
}

// Event is one change of a watch. The Object of a Bookmark has nothing but its resourceVersion and annotations.
type Event struct {
	Type   watch.EventType // Added, Modified, Deleted or Bookmark
	Object objects.Object
}
