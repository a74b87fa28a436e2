package bootstrap

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
)

// API wraps api so that each write wakes up the loops that depend on it. apiServicesChanged is called after writes of
// APIServices.
func (b *Bootstrap) API(api verbs.API, apiServicesChanged func(context.Context)) verbs.API {
	return observed{api, func(ctx context.Context, req *verbs.Request) {
		b.wrote(ctx, req)
		if req.Resource.Names.GR() == apiServicesResource.GroupResource() {
			apiServicesChanged(ctx)
		}
	}}
}

// observed calls wrote after each write.
type observed struct {
	verbs.API
	wrote func(context.Context, *verbs.Request)
}

func (o observed) Create(ctx context.Context, req *verbs.Request, body verbs.Body, opts *metav1.CreateOptions) (verbs.Result, error) {
	defer o.wrote(ctx, req)
	return o.API.Create(ctx, req, body, opts)
}

func (o observed) Update(ctx context.Context, req *verbs.Request, body verbs.Body, opts *metav1.UpdateOptions) (verbs.Result, error) {
	defer o.wrote(ctx, req)
	return o.API.Update(ctx, req, body, opts)
}

func (o observed) Patch(ctx context.Context, req *verbs.Request, p verbs.Patch, opts *metav1.PatchOptions) (verbs.Result, error) {
	defer o.wrote(ctx, req)
	return o.API.Patch(ctx, req, p, opts)
}

func (o observed) Delete(ctx context.Context, req *verbs.Request, opts *metav1.DeleteOptions) (verbs.Result, error) {
	defer o.wrote(ctx, req)
	return o.API.Delete(ctx, req, opts)
}

func (o observed) DeleteCollection(ctx context.Context, req *verbs.Request, opts *metav1.DeleteOptions, list *metav1.ListOptions) (verbs.Listing, error) {
	defer o.wrote(ctx, req)
	return o.API.DeleteCollection(ctx, req, opts, list)
}
