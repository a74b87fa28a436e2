package verbs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/authz"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// Corrupt returns the stored values that cannot be decoded, in key order, of the resources that have been read so far.
func (e *Engine) Corrupt() []*cache.Corrupt { return e.cache.Corrupt() }

// maxNamedCorrupt bounds the names in the warning of a list.
const maxNamedCorrupt = 5

// warnCorrupt adds a warning to a list that leaves out objects which cannot be decoded.
func (req *Request) warnCorrupt(t *table, s *cache.Selector) {
	corrupt := t.Corrupt(s.Namespace)
	if len(corrupt) == 0 || !s.Everything() { // the labels and fields of such an object are unknown
		return
	}
	var names []string
	for _, c := range corrupt[:min(len(corrupt), maxNamedCorrupt)] {
		names = append(names, strings.TrimPrefix(c.Key.Namespace+"/"+c.Key.Name, "/"))
	}
	if len(corrupt) > maxNamedCorrupt {
		names = append(names, "…")
	}
	req.Warn(fmt.Sprintf("%d %s in the store cannot be decoded and are not listed: %s", len(corrupt), t.r.Names.GR(), strings.Join(names, ", ")))
}

// ignoresReadError reports whether a delete requests the removal of an object that cannot be decoded.
func ignoresReadError(opts *metav1.DeleteOptions) bool {
	o := opts.IgnoreStoreReadErrorWithClusterBreakingPotential
	return o != nil && *o
}

const unsafeDeleteVerb = "unsafe-delete-ignore-read-errors"

// ignoreReadErrorField is the option's name in errors.
var ignoreReadErrorField = field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential")

// authorizeUnsafe returns nil if the request's user may delete objects that cannot be decoded.
func (w *write) authorizeUnsafe(ctx context.Context) error {
	w.req.Annotate("apiserver.k8s.io/unsafe-delete-ignore-read-error", "")
	forbidden := func(err error) error { return apierrors.NewForbidden(w.gr(), w.req.Name, err) }
	if w.req.Subresource != "" {
		return forbidden(fmt.Errorf("%s delete option is not allowed on a subresource or non-resource request", ignoreReadErrorField))
	}
	if len(w.Engine.stages.Authorizers) == 0 {
		return nil
	}
	a := w.req.Attributes
	a.Verb = unsafeDeleteVerb
	decision, reason, err := authz.Decide(ctx, w.Engine.stages.Authorizers, &a)
	switch {
	case decision == stage.Allow:
		return nil
	case err != nil:
		return forbidden(fmt.Errorf("error while checking permission for %q, %w", unsafeDeleteVerb, err))
	}
	return forbidden(fmt.Errorf("not permitted to do %q, reason: %s", unsafeDeleteVerb, reason))
}

// deleteCorrupt removes an object that cannot be decoded, regardless of its finalizers and grace period.
func (w *write) deleteCorrupt(ctx context.Context, opts *metav1.DeleteOptions) (Result, error) {
	if err := w.authorizeUnsafe(ctx); err != nil {
		return Result{}, err
	}
	w.deleteOptions = opts
	for {
		_, err := w.current(ctx, w.table, w.req.key())
		var c *cache.Corrupt
		if !errors.As(err, &c) {
			kind := schema.GroupKind{Group: w.gr().Group, Kind: w.gr().Resource}
			return Result{}, newInvalid(kind, w.req.Name, field.ErrorList{
				field.Invalid(ignoreReadErrorField, true, "is exclusively used to delete corrupt object(s), try again by removing this option"),
			})
		}
		err = w.removeCorrupt(ctx, c)
		if errors.Is(err, store.ErrConflict) && ctx.Err() == nil {
			if err := w.Engine.cache.WaitUntilFresh(ctx); err != nil {
				return Result{}, w.status(err)
			}
			continue
		}
		if err != nil {
			return Result{}, w.status(err)
		}
		return Result{Other: &metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess, Code: 200,
			Details: &metav1.StatusDetails{Name: w.req.Name, Kind: w.r.Names.Kind},
		}}, nil
	}
}

// removeCorrupt deletes a value from the store. Validators get an empty object.
func (w *write) removeCorrupt(ctx context.Context, c *cache.Corrupt) error {
	start := w.machine.Now()
	obj := w.r.New()
	obj.GetObjectKind().SetGroupVersionKind(w.r.Names.GVK())
	if err := w.validate(ctx, w.admission(stage.Delete, nil, obj)); err != nil {
		return err
	}
	w.recordStage("admission", start)
	start = w.machine.Now()
	ctx, err := detach(ctx)
	if err != nil {
		return err
	}
	revs, err := w.config.Store.Write(ctx, store.Op{Key: c.StoreKey, Expect: store.At(c.Revision)})
	if err != nil {
		return err
	}
	if err := w.Engine.cache.Wait(ctx, revs[0]); err != nil {
		return err
	}
	w.recordStage("commit", start)
	named := obj.DeepCopyObject().(objects.Object)
	named.SetName(c.Key.Name)
	named.SetNamespace(c.Key.Namespace)
	w.span(cache.NewItem(c.Key, revs[0], named), named, nil)
	return nil
}
