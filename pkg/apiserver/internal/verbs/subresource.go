package verbs

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/objects"
)

// kind is a subresource with a kind of its own.
type kind struct {
	view   func(w *table, obj objects.Object) (objects.Object, error)
	update func(ctx context.Context, w *write, obj objects.Object) (Result, error)
	create func(ctx context.Context, w *write, obj runtime.Object) (Result, error)
}

// subresources are the subresources with a kind of their own, by name.
var subresources = map[string]*kind{}

// ownKind returns the request's subresource, where that has a kind of its own.
func (w *write) ownKind() *kind { return subresources[w.req.Subresource] }

func (w *write) connect(ctx context.Context, obj runtime.Object) (Result, error) {
	if k := w.ownKind(); k != nil && k.create != nil {
		return k.create(ctx, w, obj)
	}
	return Result{}, apierrors.NewMethodNotSupported(w.gr(), "create")
}

// subresourceView returns what a GET of a subresource answers.
func (e *Engine) subresourceView(req *Request, t *table, item *cache.Item) (*cache.Item, error) {
	k := subresources[req.Subresource]
	if k == nil || k.view == nil {
		return nil, apierrors.NewMethodNotSupported(t.r.Names.GR(), "get")
	}
	obj, err := item.Object()
	if err != nil {
		return nil, err
	}
	view, err := k.view(t, obj)
	if err != nil {
		return nil, err
	}
	return cache.NewItem(item.Key, item.Revision, view), nil
}
