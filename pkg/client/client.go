// Package client owns the access to the API: the Client interface, its HTTP implementation, and Caches, the informers of a
// component.
//
// Every component (controllers, scheduler, kubelet) gets a Client and uses nothing else. In the API server's own process the
// Client calls the server's verbs directly, with the same authorization and admission, and returns the objects of the server's
// cache. Objects from a Client or a Cache are therefore shared and must not be changed: use DeepCopy first. An object that is
// passed to a Client belongs to the Client from then on.
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

// Client makes requests to the API under one identity. It is safe for concurrent use. Errors are *apierrors.StatusError,
// the same from every implementation, unless there was no response: then they are errors of the network or the context.
// Writes carry the context's trace.Report.
type Client interface {
	Get(ctx context.Context, t Target, opts metav1.GetOptions) (objects.Object, error)
	List(ctx context.Context, t Target, opts metav1.ListOptions) (List, error)

	// Watch yields changes after opts.ResourceVersion until ctx ends or the caller leaves the loop. AllowWatchBookmarks and
	// SendInitialEvents work as in the API. An error ends the sequence. After an expired one (apierrors.IsResourceExpired,
	// IsGone) the caller must list again; after an end without an error it can watch again from the last revision.
	Watch(ctx context.Context, t Target, opts metav1.ListOptions) iter.Seq2[Event, error]

	// Create and Update take the objects of subresources (a Binding, a Scale) for targets with a subresource.
	Create(ctx context.Context, t Target, obj runtime.Object, opts metav1.CreateOptions) (runtime.Object, error)
	Update(ctx context.Context, t Target, obj runtime.Object, opts metav1.UpdateOptions) (runtime.Object, error)
	Patch(ctx context.Context, t Target, p Patch, opts metav1.PatchOptions) (runtime.Object, error)

	// Delete deletes the object that t names, or all objects of t.Namespace if t.All is set. The returned object is nil
	// if the response is a Status.
	Delete(ctx context.Context, t Target, opts metav1.DeleteOptions) (runtime.Object, error)
}

// Target names the object or the collection of a request.
type Target struct {
	Resource    schema.GroupVersionResource
	Namespace   string // "" for cluster-scoped resources and for all namespaces
	Name        string
	Subresource string
	All         bool // Delete deletes the whole collection; an empty name alone does not, because it is more often a mistake
}

// Deletable returns an error unless t has either a name or All.
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

// Event is one change of a watch. The Object of a Bookmark has only a resourceVersion and annotations.
type Event struct {
	Type   watch.EventType // Added, Modified, Deleted or Bookmark
	Object objects.Object
}
