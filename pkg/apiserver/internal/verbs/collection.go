package verbs

import (
	"cmp"
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	optionsvalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
)

// DeleteCollection deletes the objects that a list returns, and returns them.
func (e *Engine) DeleteCollection(ctx context.Context, req *Request, opts *metav1.DeleteOptions, list *metav1.ListOptions) (Listing, error) {
	if err := e.admitList(ctx, req, list); err != nil {
		return Listing{}, err
	}
	if err := e.admit(ctx, req, "DeleteOptions", optionsvalidation.ValidateDeleteOptions(opts)); err != nil {
		return Listing{}, err
	}
	if ignoresReadError(opts) {
		return Listing{}, invalidOptions("DeleteOptions", field.ErrorList{
			field.Invalid(ignoreReadErrorField, true, "is not allowed with DELETECOLLECTION, try again after removing the option"),
		})
	}
	w, err := e.begin(req, opts.DryRun, stage.Options{})
	if err != nil {
		return Listing{}, err
	}
	w.warnOrphanDefault(opts)
	if list.Limit > 0 {
		page, err := e.list(ctx, req, list)
		if err != nil {
			return Listing{}, err
		}
		return page, e.deleteAll(ctx, req, opts, page.Items)
	}
	return e.deletePages(ctx, req, opts, list.DeepCopy())
}

const (
	collectionPage = 10000 // objects per list; a limit also changes which resourceVersion the list reads
	deleteParallel = 16    // concurrent deletes, which one commit of the store can take together
)

// deletePages deletes the objects of a list page by page.
func (e *Engine) deletePages(ctx context.Context, req *Request, opts *metav1.DeleteOptions, list *metav1.ListOptions) (Listing, error) {
	list.Limit = collectionPage
	var out Listing
	for {
		page, err := e.list(ctx, req, list)
		if err != nil {
			return Listing{}, err
		}
		if err := e.deleteAll(ctx, req, opts, page.Items); err != nil {
			return Listing{}, err
		}
		if out.Revision == 0 {
			out.Revision = page.Revision
		}
		out.Items = append(out.Items, page.Items...)
		if page.Continue == "" {
			return out, nil
		}
		list.Continue, list.ResourceVersion, list.ResourceVersionMatch = page.Continue, "", ""
	}
}

// deleteAll deletes listed objects. The error is that of the first object that cannot be deleted.
func (e *Engine) deleteAll(ctx context.Context, req *Request, opts *metav1.DeleteOptions, items []*cache.Item) error {
	errs := make([]error, len(items))
	var all errgroup.Group
	all.SetLimit(clock.AtOnce(ctx, deleteParallel))
	for n, i := range items {
		all.Go(func() error {
			if err := e.deleteListed(ctx, req, opts, i); !apierrors.IsNotFound(err) { // another client may have deleted it
				errs[n] = err
			}
			return nil
		})
	}
	_ = all.Wait() // the errors are in errs
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
	w := &write{Engine: e, table: t, req: &one, dry: len(opts.DryRun) > 0, began: e.machine.Now()}
	_, err = w.delete(ctx, opts.DeepCopy())
	return err
}
