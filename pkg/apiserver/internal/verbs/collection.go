package verbs

import (
	"cmp"
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	optionsvalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// DeleteCollection deletes what a list finds, and returns what it has found.
func (e *Engine) DeleteCollection(ctx context.Context, req *Request, opts *metav1.DeleteOptions, list *metav1.ListOptions) (Listing, error) {
	if errs := optionsvalidation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return Listing{}, invalidOptions("DeleteOptions", errs)
	}
	req.tellFields(list)
	w, err := e.begin(ctx, req, opts.DryRun, stage.Options{})
	if err != nil {
		return Listing{}, err
	}
	w.warnOfOrphans(opts)
	if list.Limit > 0 {
		found, err := e.list(ctx, req, list)
		if err != nil {
			return Listing{}, err
		}
		return found, e.deleteAll(ctx, req, opts, found.Items)
	}
	return e.deletePages(ctx, req, opts, list.DeepCopy())
}

const (
	collectionPage = 10000 // how many objects are listed at a time; that there is a bound also decides which version is meant
	deletedAtATime = 16    // how many of them are deleted together, and so committed together
)

// deletePages deletes what a list finds, page by page.
func (e *Engine) deletePages(ctx context.Context, req *Request, opts *metav1.DeleteOptions, list *metav1.ListOptions) (Listing, error) {
	list.Limit = collectionPage
	var out Listing
	for {
		found, err := e.list(ctx, req, list)
		if err != nil {
			return Listing{}, err
		}
		if err := e.deleteAll(ctx, req, opts, found.Items); err != nil {
			return Listing{}, err
		}
		if out.Revision == 0 {
			out.Revision = found.Revision
		}
		out.Items = append(out.Items, found.Items...)
		if found.Continue == "" {
			return out, nil
		}
		list.Continue, list.ResourceVersion, list.ResourceVersionMatch = found.Continue, "", ""
	}
}

// deleteAll deletes what was listed. The error is that of the first object that can't be deleted.
func (e *Engine) deleteAll(ctx context.Context, req *Request, opts *metav1.DeleteOptions, items []*cache.Item) error {
	errs := make([]error, len(items))
	var all errgroup.Group
	all.SetLimit(deletedAtATime)
	for n, i := range items {
		all.Go(func() error {
			if err := e.deleteListed(ctx, req, opts, i); !apierrors.IsNotFound(err) { // else somebody else was faster
				errs[n] = err
			}
			return nil
		})
	}
	_ = all.Wait() // each has an error of its own
	return cmp.Or(errs...)
}

// deleteListed deletes one object of a collection.
func (e *Engine) deleteListed(ctx context.Context, req *Request, opts *metav1.DeleteOptions, i *cache.Item) error {
	one := *req
	one.Namespace, one.Name = i.Key.Namespace, i.Key.Name
	t, err := e.table(req.Resource)
	if err != nil {
		return err
	}
	w := &write{Engine: e, table: t, req: &one, dry: len(opts.DryRun) > 0, began: e.config.Clock.Now()}
	_, err = w.delete(ctx, opts.DeepCopy())
	return err
}
