package verbs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	optionsvalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// Delete removes an object, or marks it as being deleted while it has finalizers or a grace period.
func (e *Engine) Delete(ctx context.Context, req *Request, opts *metav1.DeleteOptions) (Result, error) {
	if err := e.admit(ctx, req, "DeleteOptions", optionsvalidation.ValidateDeleteOptions(opts)); err != nil {
		return Result{}, err
	}
	w, err := e.begin(req, opts.DryRun, stage.Options{})
	if err != nil {
		return Result{}, err
	}
	if ignoresReadError(opts) {
		return w.deleteCorrupt(ctx, opts)
	}
	w.warnOrphanDefault(opts)
	return w.delete(ctx, opts)
}

// warnOrphanDefault adds a warning when a delete names no propagation policy and the resource orphans by default.
func (w *write) warnOrphanDefault(opts *metav1.DeleteOptions) {
	if w.r.OrphanWarning != "" && opts.PropagationPolicy == nil && opts.OrphanDependents == nil { //nolint:staticcheck // old clients still send it
		w.req.Warn(w.r.OrphanWarning)
	}
}

func (w *write) delete(ctx context.Context, opts *metav1.DeleteOptions) (Result, error) {
	w.deleteOptions = opts
	for attempt := 0; ; attempt++ {
		item, err := w.current(ctx, w.table, w.req.key())
		if err != nil {
			return Result{}, err
		}
		res, err := w.deleteOnce(ctx, opts, item, attempt)
		if errors.Is(err, errRetry) && ctx.Err() == nil {
			if err := w.Engine.cache.WaitUntilFresh(ctx); err != nil {
				return Result{}, w.status(err)
			}
			continue
		}
		return res, w.status(err)
	}
}

// deleteOnce tries to delete the object as the cache has it.
func (w *write) deleteOnce(ctx context.Context, opts *metav1.DeleteOptions, item *cache.Item, attempt int) (Result, error) {
	start := w.machine.Now()
	item, old, err := item.Decoded()
	if err != nil {
		return Result{}, err
	}
	if err := w.checkPreconditions(opts.Preconditions, old); err != nil {
		if attempt == 0 {
			return Result{}, errRetry
		}
		return Result{}, err
	}
	if err := w.validate(ctx, w.admission(stage.Delete, nil, old)); err != nil {
		return Result{}, err
	}
	w.recordStage("admission", start)
	obj := old.DeepCopyObject().(objects.Object)
	switch w.planDeletion(obj, opts) {
	case leave:
		return w.deleteResult(item, obj, true)
	case mark:
		kept, err := w.commit(ctx, obj, item)
		if err != nil {
			return Result{}, retryOnConflict(err)
		}
		return w.deleteResult(kept, nil, true)
	}
	gone, err := w.remove(ctx, obj, item)
	if err != nil {
		return Result{}, retryOnConflict(err)
	}
	return w.deleteResult(gone, nil, false)
}

// retryOnConflict turns a conflict of a write without a precondition on the version into errRetry.
func retryOnConflict(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return errRetry
	}
	return err
}

func (w *write) checkPreconditions(p *metav1.Preconditions, old objects.Object) error {
	if p == nil {
		return nil
	}
	kind := schema.GroupResource{Group: w.gr().Group, Resource: w.r.Names.Kind}
	if p.UID != nil && *p.UID != old.GetUID() {
		return apierrors.NewConflict(kind, old.GetName(), fmt.Errorf(
			"the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, old.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != old.GetResourceVersion() {
		return apierrors.NewConflict(kind, old.GetName(), fmt.Errorf(
			"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, old.GetResourceVersion()))
	}
	return nil
}

// deletion is the effect of a delete on an object.
type deletion int

const (
	remove deletion = iota // the object is removed now
	mark                   // the object is updated, and removed after its finalizers and grace period
	leave                  // the object is already being deleted and does not change
)

// planDeletion decides how obj is deleted, and sets its metadata accordingly.
func (w *write) planDeletion(obj objects.Object, opts *metav1.DeleteOptions) deletion {
	now := w.config.Clock.Now().Truncate(time.Second)
	if ns, ok := obj.(*corev1.Namespace); ok {
		if d, ok := w.planNamespace(ns, opts, now); ok {
			return d
		}
	}
	if w.r.Deleting != nil && obj.GetDeletionTimestamp() == nil {
		if w.r.Deleting(obj, now); obj.GetDeletionTimestamp() != nil {
			return mark
		}
	}
	graceful, pending := w.grace(obj, opts, now)
	if pending {
		return leave
	}
	obj.SetFinalizers(w.deletionFinalizers(obj, opts))
	switch {
	case len(obj.GetFinalizers()) > 0:
		if !graceful {
			markDeleting(obj, now)
		}
		return mark
	case graceful && *obj.GetDeletionGracePeriodSeconds() > 0:
		return mark
	}
	return remove
}

// grace sets the grace period of obj, where its resource has one. pending means that obj already has a grace period that
// ends no later than the requested one.
func (w *write) grace(obj objects.Object, opts *metav1.DeleteOptions, now time.Time) (graceful, pending bool) {
	requested := opts.GracePeriodSeconds
	if requested != nil && *requested < 0 {
		requested = new(int64(1))
	}
	current := obj.GetDeletionGracePeriodSeconds()
	if current != nil && *current < 0 {
		current = new(int64(1))
		obj.SetDeletionGracePeriodSeconds(current)
	}
	if obj.GetDeletionTimestamp() == nil {
		seconds := w.r.Grace(obj, requested)
		if seconds < 0 {
			return false, false
		}
		setDeletion(obj, now.Add(time.Duration(seconds)*time.Second), seconds)
		if obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
		return true, false
	}
	if current == nil || *current == 0 {
		return false, false
	}
	if requested == nil || *requested >= *current {
		return false, true
	}
	seconds := *requested
	at := obj.GetDeletionTimestamp().Add(time.Duration(seconds-*current) * time.Second)
	if at.Before(now) {
		at = now
		if seconds != 0 {
			seconds = 1
		}
	}
	setDeletion(obj, at, seconds)
	return true, false
}

func setDeletion(obj objects.Object, at time.Time, seconds int64) {
	t := metav1.NewTime(at)
	obj.SetDeletionTimestamp(&t)
	obj.SetDeletionGracePeriodSeconds(&seconds)
}

// markDeleting marks an object that has finalizers and no grace period.
func markDeleting(obj objects.Object, now time.Time) {
	at := obj.GetDeletionTimestamp()
	if at == nil && obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	if at == nil || at.After(now) {
		setDeletion(obj, now, 0)
		return
	}
	obj.SetDeletionGracePeriodSeconds(new(int64))
}

// deletionFinalizers returns the finalizers of an object after a delete: the options add or remove orphan and
// foregroundDeletion.
func (w *write) deletionFinalizers(obj objects.Object, opts *metav1.DeleteOptions) []string {
	orphan, foreground := w.dependents(obj, opts)
	old := obj.GetFinalizers()
	kept := slices.DeleteFunc(slices.Clone(old), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if orphan {
		kept = append(kept, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		kept = append(kept, metav1.FinalizerDeleteDependents)
	}
	if sameSet(old, kept) {
		return old
	}
	return kept
}

func sameSet(a, b []string) bool {
	in := func(set []string) func(string) bool {
		return func(s string) bool { return !slices.Contains(set, s) }
	}
	return !slices.ContainsFunc(a, in(b)) && !slices.ContainsFunc(b, in(a))
}

// dependents returns whether to orphan an object's dependents, or to delete them in the foreground. The options decide,
// then the object's finalizers, then the resource's default.
func (w *write) dependents(obj objects.Object, opts *metav1.DeleteOptions) (orphan, foreground bool) {
	if o := opts.OrphanDependents; o != nil { //nolint:staticcheck // old clients still send it
		return *o, false
	}
	if p := opts.PropagationPolicy; p != nil {
		return *p == metav1.DeletePropagationOrphan, *p == metav1.DeletePropagationForeground
	}
	for _, f := range obj.GetFinalizers() {
		switch f {
		case metav1.FinalizerOrphanDependents:
			return true, false
		case metav1.FinalizerDeleteDependents:
			return false, true
		}
	}
	return w.r.OrphanDefault, false
}

// remove deletes an object from the store and returns its last item.
func (w *write) remove(ctx context.Context, obj objects.Object, item *cache.Item) (*cache.Item, error) {
	start := w.machine.Now()
	if w.dry {
		return cache.NewItem(item.Key, item.Revision, obj), nil
	}
	ctx, err := detach(ctx)
	if err != nil {
		return nil, err
	}
	revs, err := w.config.Store.Write(ctx, store.Op{Key: w.StoreKey(item.Key), Expect: store.At(item.Revision)})
	if err != nil {
		return nil, err
	}
	w.stored = true
	err = w.Engine.cache.Wait(ctx, revs[0])
	w.notifyDeleted(obj) // after the wait: hooks that load later must not see the object
	for _, h := range w.hooks {
		if h.Released != nil {
			h.Released(ctx, obj)
		}
	}
	if err != nil {
		return nil, err
	}
	obj.SetResourceVersion(fmt.Sprint(uint64(revs[0])))
	gone := cache.NewItem(item.Key, revs[0], obj)
	w.recordStage("commit", start)
	w.span(gone, obj, item)
	return gone, nil
}

// deletionComplete reports whether an update of an object that is being deleted removes its last finalizer, so that the
// object can be removed.
func deletionComplete(obj, old objects.Object) bool {
	if len(obj.GetFinalizers()) > 0 || old.GetDeletionTimestamp() == nil || hasSpecFinalizers(obj) {
		return false
	}
	grace := old.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// removeDeleted removes an object whose update completes its deletion. The response is the object of the request.
func (w *write) removeDeleted(ctx context.Context, obj objects.Object, item *cache.Item) (Result, error) {
	_, err := w.remove(ctx, obj.DeepCopyObject().(objects.Object), item)
	if err != nil {
		return Result{}, retryOnConflict(err)
	}
	return Result{Item: cache.NewItem(item.Key, item.Revision, obj)}, nil
}

// deleteResult returns the result of a delete: the object if it still exists or the resource returns it, else a Status.
func (w *write) deleteResult(item *cache.Item, instead objects.Object, pending bool) (Result, error) {
	obj, err := item.Object()
	if err != nil {
		return Result{}, err
	}
	if pending && (instead == nil || hasSpecFinalizers(obj)) || w.r.ReturnsDeleted {
		return Result{Item: item, Pending: pending}, nil
	}
	return Result{Pending: pending, Other: &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: obj.GetName(), Group: w.gr().Group, Kind: w.gr().Resource, UID: obj.GetUID()},
	}}, nil
}
