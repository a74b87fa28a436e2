// Package verbs owns the API's verbs: what kube-apiserver's endpoint handlers and its generic registry do. The engine takes
// an authenticated request, authorizes it, checks its options and its namespace, runs admission, defaults and validates,
// updates managedFields, commits to the store, and records the trace. It has two front ends: HTTP and the in-process
// client. They only translate requests and responses, so that a request has the same effect through both.
//
// Objects enter and leave in the stored version. The front ends decode, encode, and convert other served versions
// (objects.VersionOf). An object that leaves is shared and must not be changed; an object that enters becomes the
// engine's.
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
	Reviews   map[schema.GroupResource]stage.Review // evaluate objects that are created but never stored
	Backends  map[schema.GroupResource]Backend      // of the resources that the engine does not store
	Spans     func(trace.Span)                      // receives each committed write; nil: none are recorded
	// Token issues the token of a TokenRequest for a service account (serviceaccounts/token); nil: there is no such
	// subresource.
	Token func(ctx context.Context, account objects.Key, request *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// Request is one request to the engine.
type Request struct {
	stage.Attributes
	Version *objects.VersionOf // the requested version; nil: the stored one
	Report  trace.Report       // what the writer reports about the write
	Began   time.Time          // when the request arrived; zero: now
	Stages  []trace.Stage      // stages before the engine: "authn", "decode"

	Replay func(context.Context) (done func(), err error) // of a watch: see cache.WatchOptions

	authorized bool // by Authorize
	authz      trace.Stage
}

// Body returns the object that a request carries, in the stored version and with its defaults. The engine calls it once,
// after it has authorized the request and checked its options.
type Body func() (runtime.Object, error)

// Listing is a page of a list.
type Listing struct {
	Items     []*cache.Item
	Revision  store.Revision
	Continue  string
	Remaining *int64
}

// Event is one change of a watch. Item is nil in a bookmark.
type Event = cache.Event

// Patch is the body of a patch and the patch type.
type Patch struct {
	Type types.PatchType
	Data []byte
	// CheckKind returns an error when the patched object may not have a kind; nil: every kind is accepted.
	CheckKind func(schema.GroupVersionKind) error
}

// API is what the front ends call. Errors are *apierrors.StatusError, except context.Canceled when the client has disconnected.
type API interface {
	Get(ctx context.Context, req *Request, opts *metav1.GetOptions) (*cache.Item, error)
	List(ctx context.Context, req *Request, opts *metav1.ListOptions) (Listing, error)
	// Watch returns the changes in batches: a batch holds all changes that are available.
	Watch(ctx context.Context, req *Request, opts *metav1.ListOptions) (iter.Seq2[[]Event, error], error)
	// Create stores an object, or creates through req.Subresource (binding, eviction, token). A subresource may return
	// another object than an item: a Status, a TokenRequest.
	Create(ctx context.Context, req *Request, body Body, opts *metav1.CreateOptions) (Result, error)
	Update(ctx context.Context, req *Request, body Body, opts *metav1.UpdateOptions) (Result, error)
	Patch(ctx context.Context, req *Request, p Patch, opts *metav1.PatchOptions) (Result, error)
	Delete(ctx context.Context, req *Request, opts *metav1.DeleteOptions) (Result, error)
	DeleteCollection(ctx context.Context, req *Request, opts *metav1.DeleteOptions, list *metav1.ListOptions) (Listing, error)
}

// Result is the result of a write: either an item of the resource or another object.
type Result struct {
	Item    *cache.Item
	Other   runtime.Object
	Created bool // the response has code 201
	Pending bool // a delete that waits for finalizers or a grace period: the object is still there
}
