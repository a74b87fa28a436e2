package verbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	optionsvalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// change is a modification of one object, by whatever verb.
type change struct {
	// build returns the new object, owned by the caller and with the resourceVersion and uid that the client insists on
	// (if any). old is shared; nil when there is no object, which only happens with create. It may be called again.
	build func(ctx context.Context, old objects.Object) (objects.Object, error)
	// create allows that there is no object yet.
	create bool
	// patched says that build's resourceVersion is that of old unless the client has changed it: it insists on nothing.
	patched bool
	// uid is the object that the client means; empty: whichever has the name.
	uid string
}

// Update replaces an object, or a part of it through a subresource.
func (e *Engine) Update(ctx context.Context, req *Request, obj runtime.Object, opts *metav1.UpdateOptions) (Result, error) {
	if errs := optionsvalidation.ValidateUpdateOptions(opts); len(errs) > 0 {
		return Result{}, invalidOptions("UpdateOptions", errs)
	}
	w, err := e.begin(ctx, req, opts.DryRun, stage.Options{FieldManager: opts.FieldManager, FieldValidation: opts.FieldValidation})
	if err != nil {
		return Result{}, err
	}
	in, ok := obj.(objects.Object)
	if !ok {
		return Result{}, apierrors.NewInternalError(fmt.Errorf("%T has no metadata", obj))
	}
	if err := w.named(in); err != nil {
		return Result{}, err
	}
	if s, ok := subresourceOf(w.r, req.Subresource); ok {
		return w.setThrough(ctx, s, change{
			build: func(_ context.Context, view objects.Object) (objects.Object, error) { return in, w.track(view, in) },
		})
	}
	fixed, sent := in.GetResourceVersion() != "", in.GetManagedFields()
	return w.modify(ctx, change{
		create: w.r.CreateOnUpdate && req.Subresource == "",
		uid:    string(in.GetUID()),
		build: func(_ context.Context, old objects.Object) (objects.Object, error) {
			next := in
			if !fixed {
				next = in.DeepCopyObject().(objects.Object) // there may be another try
			}
			next.SetManagedFields(sent)
			w.onceOwners(next, false)
			return next, w.track(old, next)
		},
	})
}

// named checks that an object is the one of the URL.
func (w *write) named(obj metav1.Object) error {
	if err := inNamespace(obj, w.namespace()); err != nil {
		return err
	}
	if obj.GetName() == "" {
		return w.nameless()
	}
	if obj.GetName() != w.req.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), w.req.Name))
	}
	return nil
}

// nameless is the answer to an object that does not say its name.
func (w *write) nameless() error {
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", w.req.Name))
}

// modify makes a change, again when somebody else was faster and the client did not insist on a version.
func (w *write) modify(ctx context.Context, c change) (Result, error) {
	for attempt := 0; ; attempt++ {
		item, err := w.current(ctx, w.table, w.req.key())
		if apierrors.IsNotFound(err) && c.create {
			res, err := w.modifyAbsent(ctx, c)
			if apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
				continue
			}
			return res, err
		}
		if err != nil {
			return Result{}, err
		}
		res, err := w.modifyOnce(ctx, c, item, attempt)
		if errors.Is(err, errAgain) && ctx.Err() == nil {
			if err := w.Engine.cache.Fresh(ctx); err != nil {
				return Result{}, w.status(err)
			}
			continue
		}
		return res, w.status(err)
	}
}

// errAgain reports that the object was not what the cache shows.
var errAgain = fmt.Errorf("look again: %w", store.ErrConflict)

// modifyAbsent is a change that creates.
func (w *write) modifyAbsent(ctx context.Context, c change) (Result, error) {
	start := w.config.Clock.Now()
	if c.uid != "" {
		return Result{}, apierrors.NewConflict(w.gr(), w.req.Name,
			preconditionFailed("UID", w.gr(), w.req.Namespace, w.req.Name, c.uid, ""))
	}
	obj, err := c.build(ctx, nil)
	if err != nil {
		return Result{}, w.status(err)
	}
	obj.SetResourceVersion("")
	a := w.admission(stage.Create, obj, nil)
	if err := w.mutate(ctx, a); err != nil {
		return Result{}, err
	}
	w.took("admission", start)
	item, err := w.insert(ctx, a)
	return Result{Item: item, Created: err == nil}, err
}

// modifyOnce tries a change on what the cache shows.
func (w *write) modifyOnce(ctx context.Context, c change, item *cache.Item, attempt int) (Result, error) {
	start := w.config.Clock.Now()
	item, old, err := item.Opened()
	if err != nil {
		return Result{}, err
	}
	if c.uid != "" && c.uid != string(old.GetUID()) {
		if attempt == 0 {
			return Result{}, errAgain
		}
		return Result{}, apierrors.NewConflict(w.gr(), w.req.Name,
			preconditionFailed("UID", w.gr(), w.req.Namespace, w.req.Name, c.uid, string(old.GetUID())))
	}
	obj, err := c.build(ctx, old)
	if err != nil {
		return Result{}, err
	}
	insists := obj.GetResourceVersion() != "" && !c.patched
	if err := w.checkVersion(obj, old); err != nil {
		if attempt == 0 && apierrors.IsConflict(err) {
			return Result{}, errAgain
		}
		return Result{}, err
	}
	obj.SetResourceVersion(old.GetResourceVersion()) // what has none takes whichever there is
	a := w.admission(stage.Update, obj, old)
	if err := w.mutate(ctx, a); err != nil {
		return Result{}, err
	}
	w.took("admission", start)
	start = w.config.Clock.Now()
	var tx stage.Transaction
	defer tx.Rollback(ctx)
	if err := w.hookUpdate(ctx, &tx, obj, old); err != nil {
		return Result{}, err
	}
	if err = w.prepare(obj, old); err != nil {
		return Result{}, err
	}
	w.keepTimes(obj, old, item)
	if err = w.validate(ctx, a); err != nil {
		return Result{}, err
	}
	if err = w.reserve(ctx, a, &tx); err != nil {
		return Result{}, err
	}
	w.took("validation", start)
	var res Result
	if finished(obj, old) {
		res, err = w.removeFinished(ctx, obj, item)
	} else {
		res.Item, err = w.commit(ctx, obj, item)
	}
	if errors.Is(err, store.ErrConflict) && !insists {
		err = errAgain
	}
	if err == nil && !w.dry {
		tx.Commit(ctx)
	}
	return res, err
}

// hookUpdate runs the hooks for a write of the main resource; subresources change nothing that they look at.
func (w *write) hookUpdate(ctx context.Context, tx *stage.Transaction, obj, old objects.Object) error {
	if w.req.Subresource != "" {
		return nil
	}
	return w.hook(ctx, tx, obj, old)
}

// checkVersion compares the version that the client has seen with the one there is.
func (w *write) checkVersion(obj, old objects.Object) error {
	asked := obj.GetResourceVersion()
	if asked == "" || asked == "0" {
		if !w.r.NeedsVersion || w.req.Subresource == "scale" { // a scale stands for whichever version there is
			return nil
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: w.gr().Group, Kind: w.gr().Resource}, w.req.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata").Child("resourceVersion"), 0, "must be specified for an update"),
		})
	}
	if _, err := strconv.ParseUint(asked, 10, 64); err != nil {
		return plain(err)
	}
	if asked != old.GetResourceVersion() {
		return apierrors.NewConflict(w.gr(), w.req.Name, errors.New(objectModified))
	}
	return nil
}

// prepare takes back what a client may not change, and validates.
func (w *write) prepare(obj, old objects.Object) error {
	obj.SetGeneration(old.GetGeneration())
	prepare, validate, warnings := w.r.Prepare, w.r.Validate, w.r.Warnings
	if part := w.r.Part(w.req.Subresource); part != nil {
		prepare, validate, warnings = part.Prepare, part.Validate, part.Warnings
	}
	prepare(obj, old)
	keepSystemFields(obj, old)
	meta := field.NewPath("metadata")
	errs := validation.ValidateObjectMetaAccessor(obj, !w.r.Names.Cluster, pathSegment, meta)
	errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(obj, old, meta)...)
	errs = append(errs, validate(obj, old)...)
	errs = append(errs, w.validateServed(obj, old)...)
	if err := w.invalid(obj.GetName(), errs); err != nil {
		return err
	}
	if warnings != nil {
		w.warn(warnings(obj, old))
	}
	return nil
}

func keepSystemFields(obj, old objects.Object) {
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	if t := old.GetCreationTimestamp(); !t.IsZero() {
		obj.SetCreationTimestamp(t)
	}
	if t := old.GetDeletionTimestamp(); !t.IsZero() {
		obj.SetDeletionTimestamp(t)
	}
	if g := old.GetDeletionGracePeriodSeconds(); g != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(g)
	}
}

// keepTimes takes over old's managedFields when obj's differ in nothing but their times and the rest of the object is
// old's, so that a write that changes nothing is none. item is old's.
func (w *write) keepTimes(obj, old objects.Object, item *cache.Item) {
	fresh, was := obj.GetManagedFields(), old.GetManagedFields()
	if len(fresh) != len(was) {
		return
	}
	newer := false
	for i := range fresh {
		a, b := fresh[i], was[i]
		if a.Manager != b.Manager || a.Operation != b.Operation || a.APIVersion != b.APIVersion ||
			a.Subresource != b.Subresource || !sameFields(a.FieldsV1, b.FieldsV1) {
			return
		}
		newer = newer || !sameTime(a.Time, b.Time)
	}
	if !newer {
		return
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if before, ok := old.(*unstructured.Unstructured); ok && sameContent(u.Object, before.Object) {
			obj.SetManagedFields(was)
		}
		return
	}
	version := obj.GetResourceVersion()
	obj.SetManagedFields(was)
	obj.SetResourceVersion("")
	if same, err := item.Stores(w.r.Names.GVK(), obj); err != nil || !same {
		obj.SetManagedFields(fresh)
	}
	obj.SetResourceVersion(version)
}

// sameContent compares the contents of two objects without their managedFields and versions.
func sameContent(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for name, value := range a {
		was := b[name]
		if m, ok := value.(map[string]any); ok && name == "metadata" {
			value = withoutBookkeeping(m)
			if m, ok := was.(map[string]any); ok {
				was = withoutBookkeeping(m)
			}
		}
		if !reflect.DeepEqual(value, was) {
			return false
		}
	}
	return true
}

func withoutBookkeeping(metadata map[string]any) map[string]any {
	out := maps.Clone(metadata)
	delete(out, "managedFields")
	delete(out, "resourceVersion")
	return out
}

func sameFields(a, b *metav1.FieldsV1) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.Raw, b.Raw)
}

func sameTime(a, b *metav1.Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Truncate(time.Second).Equal(b.Truncate(time.Second))
}
