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

// Delete removes an object, or marks it for those who have to finish something first: finalizers, and whoever ends it
// within its grace period.
func (e *Engine) Delete(ctx context.Context, req *Request, opts *metav1.DeleteOptions) (Result, error) {
	if errs := optionsvalidation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return Result{}, invalidOptions("DeleteOptions", errs)
	}
	w, err := e.begin(ctx, req, opts.DryRun, stage.Options{})
	if err != nil {
		return Result{}, err
	}
	w.warnOfOrphans(opts)
	return w.delete(ctx, opts)
}

// warnOfOrphans warns who does not say what shall become of the dependents, if they stay.
func (w *write) warnOfOrphans(opts *metav1.DeleteOptions) {
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
		if errors.Is(err, errAgain) && ctx.Err() == nil {
			if err := w.Engine.cache.Fresh(ctx); err != nil {
				return Result{}, w.status(err)
			}
			continue
		}
		return res, w.status(err)
	}
}

// deleteOnce tries to delete what the cache shows.
func (w *write) deleteOnce(ctx context.Context, opts *metav1.DeleteOptions, item *cache.Item, attempt int) (Result, error) {
	start := w.config.Clock.Now()
	item, old, err := item.Opened()
	if err != nil {
		return Result{}, err
	}
	if err := w.checkPreconditions(opts.Preconditions, old); err != nil {
		if attempt == 0 {
			return Result{}, errAgain
		}
		return Result{}, err
	}
	if err := w.validate(ctx, w.admission(stage.Delete, nil, old)); err != nil {
		return Result{}, err
	}
	w.took("admission", start)
	obj := old.DeepCopyObject().(objects.Object)
	switch w.plan(obj, opts) {
	case leave:
		return w.deleted(item, obj, true)
	case mark:
		kept, err := w.commit(ctx, obj, item)
		if err != nil {
			return Result{}, again(err)
		}
		return w.deleted(kept, nil, true)
	}
	gone, err := w.remove(ctx, obj, item)
	if err != nil {
		return Result{}, again(err)
	}
	return w.deleted(gone, nil, false)
}

// again makes a conflict of a write that insists on no version a reason to look again.
func again(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return errAgain
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

// fate is what a delete does to an object.
type fate int

const (
	remove fate = iota // it goes at once
	mark               // it is changed, and stays until its finalizers and its grace period allow it to go
	leave              // it is on its way already, and nothing changes
)

// plan decides an object's fate and marks it accordingly.
func (w *write) plan(obj objects.Object, opts *metav1.DeleteOptions) fate {
	now := w.config.Clock.Now().Truncate(time.Second)
	if ns, ok := obj.(*corev1.Namespace); ok {
		if f, decided := w.planNamespace(ns, opts, now); decided {
			return f
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

// grace sets the time by which obj has to be finished, where its resource gives such a time. pending means that it has
// one already, which is not later than what is asked for.
func (w *write) grace(obj objects.Object, opts *metav1.DeleteOptions, now time.Time) (graceful, pending bool) {
	asked := opts.GracePeriodSeconds
	if asked != nil && *asked < 0 {
		asked = new(int64(1))
	}
	current := obj.GetDeletionGracePeriodSeconds()
	if current != nil && *current < 0 {
		current = new(int64(1))
		obj.SetDeletionGracePeriodSeconds(current)
	}
	if obj.GetDeletionTimestamp() == nil {
		seconds := w.r.Grace(obj, asked)
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
	if asked == nil || *asked >= *current {
		return false, true
	}
	seconds := *asked
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

// markDeleting marks an object that stays for its finalizers alone.
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

// deletionFinalizers returns the finalizers that an object has after a delete with those options: those for its
// dependents come and go with what is asked for.
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

// dependents says what is to become of an object's dependents. What is asked for goes first, then the finalizers that
// the object has, then the resource's default.
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

// remove takes an object out of the store and returns its last item.
func (w *write) remove(ctx context.Context, obj objects.Object, item *cache.Item) (*cache.Item, error) {
	start := w.config.Clock.Now()
	if w.dry {
		return cache.NewItem(item.Key, item.Revision, obj), nil
	}
	ctx, err := decided(ctx)
	if err != nil {
		return nil, err
	}
	revs, err := w.config.Store.Write(ctx, store.Op{Key: w.StoreKey(item.Key), Expect: store.At(item.Revision)})
	if err != nil {
		return nil, err
	}
	if err := w.Engine.cache.Wait(ctx, revs[0]); err != nil {
		return nil, err
	}
	w.toldDeleted(obj)
	obj.SetResourceVersion(fmt.Sprint(uint64(revs[0])))
	gone := cache.NewItem(item.Key, revs[0], obj)
	w.took("commit", start)
	w.span(gone, obj, item)
	return gone, nil
}

// finished reports whether an update has taken the last thing that kept a deleting object.
func finished(obj, old objects.Object) bool {
	if len(obj.GetFinalizers()) > 0 || old.GetDeletionTimestamp() == nil || spared(obj) {
		return false
	}
	grace := old.GetDeletionGracePeriodSeconds()
	return grace == nil || *grace == 0
}

// removeFinished removes an object whose update has ended its deletion; the answer is the object as it was sent.
func (w *write) removeFinished(ctx context.Context, obj objects.Object, item *cache.Item) (Result, error) {
	_, err := w.remove(ctx, obj.DeepCopyObject().(objects.Object), item)
	if err != nil {
		return Result{}, again(err)
	}
	return Result{Item: cache.NewItem(item.Key, item.Revision, obj)}, nil
}

// deleted is the answer to a delete: the object where it is still there, a Status otherwise.
func (w *write) deleted(item *cache.Item, instead objects.Object, pending bool) (Result, error) {
	obj, err := item.Object()
	if err != nil {
		return Result{}, err
	}
	if pending && (instead == nil || spared(obj)) || w.r.ReturnsDeleted {
		return Result{Item: item, Pending: pending}, nil
	}
	return Result{Pending: pending, Other: &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: obj.GetName(), Group: w.gr().Group, Kind: w.gr().Resource, UID: obj.GetUID()},
	}}, nil
}
