// Package verbs owns what the API's verbs do: it takes a request that has been authenticated, authorizes it, runs
// admission, defaults and validates, keeps managedFields, commits to the store, and notes the trace. HTTP and the
// in-process client are two thin coats over it, so that a request does the same through either.
//
// Objects go in and come out in the stored version; the coats convert other served versions (objects.Served), decode,
// and encode. What comes out is shared and must not be changed; what goes in belongs to the engine from then on.
package verbs

import (
	"context"
	"iter"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/trace"
)

// Config is what an Engine needs.
type Config struct {
	Store     store.Store
	Resources []objects.Resource
	Clock     clock.Clock
	Source    *clock.Source
	Stages    func(r stage.Reader) stage.Stages // nil: none
	Hooks     []stage.Hook
	Reviews   map[schema.GroupResource]stage.Review // answer the creates of what is only asked and never stored
	Spans     func(trace.Span)                      // is told of each committed write; nil: nobody
	// Token answers a TokenRequest for a service account (serviceaccounts/token); nil: there is no such subresource.
	Token func(ctx context.Context, account objects.Key, asked *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// Request is one request to the engine.
type Request struct {
	stage.Attributes
	Served *objects.Served // the version that was asked for; nil: the stored one
	Report trace.Report    // what the writer told about the write
	Began  time.Time       // when the request came in; zero: now
	Stages []trace.Stage   // stages before the engine: "authn", "decode"
}

// Listing is the answer of List.
type Listing struct {
	Items     []*cache.Item
	Revision  store.Revision
	Continue  string
	Remaining *int64
}

// Event is one change of a watch. Item is nil in a bookmark.
type Event = cache.Event

// Patch is a patch and its kind.
type Patch struct {
	Type types.PatchType
	Data []byte
	// Kind says what is wrong with an outcome that says it is of that kind; nil: nothing.
	Kind func(schema.GroupVersionKind) error
}

// API is what the coats call. Errors are *apierrors.StatusError, but for context.Canceled when nobody waits for an answer.
type API interface {
	Get(ctx context.Context, req *Request, opts *metav1.GetOptions) (*cache.Item, error)
	List(ctx context.Context, req *Request, opts *metav1.ListOptions) (Listing, error)
	// Watch authorizes and checks, then returns the changes in batches: all that is at hand at a time.
	Watch(ctx context.Context, req *Request, opts *metav1.ListOptions) (iter.Seq2[[]Event, error], error)
	// Create stores obj, or creates through req.Subresource (binding, eviction, token). The answer of a subresource
	// may be another object than an item: a Status, a TokenRequest.
	Create(ctx context.Context, req *Request, obj runtime.Object, opts *metav1.CreateOptions) (Result, error)
	Update(ctx context.Context, req *Request, obj runtime.Object, opts *metav1.UpdateOptions) (Result, error)
	Patch(ctx context.Context, req *Request, p Patch, opts *metav1.PatchOptions) (Result, error)
	Delete(ctx context.Context, req *Request, opts *metav1.DeleteOptions) (Result, error)
	DeleteCollection(ctx context.Context, req *Request, opts *metav1.DeleteOptions, list *metav1.ListOptions) (Listing, error)
}

// Result is the answer of a write: either an item of the resource or another object.
type Result struct {
	Item    *cache.Item
	Other   runtime.Object
	Created bool // 201
	Pending bool // a delete that waits for finalizers or a grace period: the object is still there
}
