package verbs

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	optionsvalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
)

// DeleteCollection deletes what a list finds, and returns what it has found.
func (e *Engine) DeleteCollection(ctx context.Context, req *Request, opts *metav1.DeleteOptions, list *metav1.ListOptions) (Listing, error) {
	if errs := optionsvalidation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return Listing{}, invalidOptions("DeleteOptions", errs)
	}
	req.tellFields(list)
	if _, err := e.begin(ctx, req, opts.DryRun, ""); err != nil {
		return Listing{}, err
	}
	found, err := e.list(ctx, req, list)
	if err != nil {
		return Listing{}, err
	}
	gone := make([]*cache.Item, len(found.Items))
	var all errgroup.Group
	all.SetLimit(deletedAtATime)
	for n, i := range found.Items {
		all.Go(func() error {
			item, err := e.deleteListed(ctx, req, opts, i)
			if apierrors.IsNotFound(err) {
				return nil // somebody else was faster
			}
			gone[n] = item
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return Listing{}, err
	}
	gone = slices.DeleteFunc(gone, func(i *cache.Item) bool { return i == nil })
	return Listing{Items: gone, Revision: found.Revision}, nil
}

// deletedAtATime is how many objects of a collection are deleted together, and so committed together.
const deletedAtATime = 16

// deleteListed deletes one object of a collection and returns it as it is after that, or was.
func (e *Engine) deleteListed(ctx context.Context, req *Request, opts *metav1.DeleteOptions, i *cache.Item) (*cache.Item, error) {
	one := *req
	one.Namespace, one.Name = i.Key.Namespace, i.Key.Name
	t, err := e.table(req.Resource)
	if err != nil {
		return nil, err
	}
	w := &write{Engine: e, table: t, req: &one, dry: len(opts.DryRun) > 0, began: e.config.Clock.Now()}
	res, err := w.delete(ctx, opts.DeepCopy())
	if err != nil || res.Item == nil {
		return i, err
	}
	return res.Item, nil
}
