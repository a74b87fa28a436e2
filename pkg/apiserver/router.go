package apiserver

import (
	"context"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/minikctl"
)

// router sends requests for virtual resources to where they are kept, those for the parts' health to who asks the parts,
// and all others to the engine.
type router struct{ engine, virtual, components verbs.API }

var _ verbs.API = router{}

func (x router) of(req *verbs.Request) verbs.API {
	if isVirtual(req.Resource) {
		return x.virtual
	}
	if req.Resource.Names.GR() == componentStatuses {
		return x.components
	}
	return x.engine
}

func isVirtual(r *objects.Resource) bool { return r.Names.Group == minikctl.GroupVersion.Group }

func (x router) Get(ctx context.Context, req *verbs.Request, opts *metav1.GetOptions) (*cache.Item, error) {
	return x.of(req).Get(ctx, req, opts)
}

func (x router) List(ctx context.Context, req *verbs.Request, opts *metav1.ListOptions) (verbs.Listing, error) {
	return x.of(req).List(ctx, req, opts)
}

func (x router) Watch(ctx context.Context, req *verbs.Request, opts *metav1.ListOptions) (iter.Seq2[[]verbs.Event, error], error) {
	return x.of(req).Watch(ctx, req, opts)
}

func (x router) Create(ctx context.Context, req *verbs.Request, obj runtime.Object, opts *metav1.CreateOptions) (verbs.Result, error) {
	return x.of(req).Create(ctx, req, obj, opts)
}

func (x router) Update(ctx context.Context, req *verbs.Request, obj runtime.Object, opts *metav1.UpdateOptions) (verbs.Result, error) {
	return x.of(req).Update(ctx, req, obj, opts)
}

func (x router) Patch(ctx context.Context, req *verbs.Request, p verbs.Patch, opts *metav1.PatchOptions) (verbs.Result, error) {
	return x.of(req).Patch(ctx, req, p, opts)
}

func (x router) Delete(ctx context.Context, req *verbs.Request, opts *metav1.DeleteOptions) (verbs.Result, error) {
	return x.of(req).Delete(ctx, req, opts)
}

func (x router) DeleteCollection(ctx context.Context, req *verbs.Request, opts *metav1.DeleteOptions, list *metav1.ListOptions) (verbs.Listing, error) {
	return x.of(req).DeleteCollection(ctx, req, opts, list)
}
