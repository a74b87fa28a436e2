package verbs

import (
	"context"
	"iter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
)

// Backend serves a resource that the engine does not store. The engine authorizes each request and checks its options and
// its namespace before it calls the backend. A backend that is no Watcher or Creator does not support the verb.
type Backend interface {
	Get(ctx context.Context, req *Request, opts *metav1.GetOptions) (*cache.Item, error)
	List(ctx context.Context, req *Request, opts *metav1.ListOptions) (Listing, error)
}

// Watcher is a Backend with the verb watch.
type Watcher interface {
	Watch(ctx context.Context, req *Request, opts *metav1.ListOptions) (iter.Seq2[[]Event, error], error)
}

// Creator is a Backend with the verb create.
type Creator interface {
	Create(ctx context.Context, req *Request, obj runtime.Object, opts *metav1.CreateOptions) (Result, error)
}

// backend returns the backend of a request's resource; nil when the engine stores the resource.
func (e *Engine) backend(req *Request) Backend { return e.config.Backends[req.Resource.Names.GR()] }

func (e *Engine) backendWatch(ctx context.Context, b Backend, req *Request, opts *metav1.ListOptions) (iter.Seq2[[]Event, error], error) {
	if w, ok := b.(Watcher); ok {
		return w.Watch(ctx, req, opts)
	}
	return nil, notSupported(req)
}

func (e *Engine) backendCreate(ctx context.Context, b Backend, req *Request, body Body, opts *metav1.CreateOptions) (Result, error) {
	c, ok := b.(Creator)
	if !ok {
		return Result{}, notSupported(req)
	}
	obj, err := req.object(body)
	if err != nil {
		return Result{}, err
	}
	return c.Create(ctx, req, obj, opts)
}

// notSupported returns the error of a request with a verb that the resource does not have.
func notSupported(req *Request) error {
	return apierrors.NewMethodNotSupported(req.Resource.Names.GR(), req.Verb)
}
