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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// change is a modification of one object by an update, a patch or an apply.
type change struct {
	// build returns the new object, which the caller owns, with the client's preconditions in resourceVersion and uid. old
	// is shared; it is nil if there is no object, which requires create. build may be called again.
	build func(ctx context.Context, old objects.Object) (objects.Object, error)
	// create allows the change to create the object.
	create bool
	// keepsVersion means that the resourceVersion that build returns is old's unless the client has changed it, and so no
	// precondition.
	keepsVersion bool
	// uid is the required UID; "": any.
	uid string
}

// Update replaces an object, or a part of it through a subresource.
func (e *Engine) Update(ctx context.Context, req *Request, body Body, opts *metav1.UpdateOptions) (Result, error) {
	if err := e.admit(ctx, req, "UpdateOptions", optionsvalidation.ValidateUpdateOptions(opts)); err != nil {
		return Result{}, err
	}
	w, err := e.begin(req, opts.DryRun, stage.Options{FieldManager: opts.FieldManager, FieldValidation: opts.FieldValidation})
	if err != nil {
		return Result{}, err
	}
	obj, err := req.object(body)
	if err != nil {
		return Result{}, err
	}
	in, ok := obj.(objects.Object)
	if !ok {
		return Result{}, noMetadata(obj)
	}
	if err := w.checkName(in); err != nil {
		return Result{}, err
	}
	if s, ok := subresourceOf(w.r, req.Subresource); ok {
		return w.modifyThrough(ctx, s, change{
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
				next = in.DeepCopyObject().(objects.Object) // build may be called again
			}
			next.SetManagedFields(sent)
			w.dedupOwnerReferences(next, false)
			return next, w.track(old, next)
		},
	})
}

// checkPatched checks that a patch has changed neither namespace nor name.
func (w *write) checkPatched(obj metav1.Object) error {
	if err := inNamespace(obj, w.req.objectNamespace()); err != nil {
		return err
	}
	return w.checkName(obj)
}

// checkName checks that an object has the name of the URL.
func (w *write) checkName(obj metav1.Object) error {
	if obj.GetName() == "" {
		return w.missingName()
	}
	if obj.GetName() != w.req.Name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", obj.GetName(), w.req.Name))
	}
	return nil
}

// missingName returns the error of an object without a name.
func (w *write) missingName() error {
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", w.req.Name))
}

// modify makes a change. It retries after a conflict when the client has no precondition on the version.
func (w *write) modify(ctx context.Context, c change) (Result, error) {
	for attempt := 0; ; attempt++ {
		item, err := w.current(ctx, w.table, w.req.key())
		if apierrors.IsNotFound(err) && c.create {
			res, err := w.createAbsent(ctx, c)
			if apierrors.IsAlreadyExists(err) && ctx.Err() == nil {
				continue
			}
			return res, err
		}
		if err != nil {
			return Result{}, err
		}
		res, err := w.modifyOnce(ctx, c, item, attempt)
		if errors.Is(err, errRetry) && ctx.Err() == nil {
			if err := w.Engine.cache.WaitUntilFresh(ctx); err != nil {
				return Result{}, w.status(err)
			}
			continue
		}
		return res, w.status(err)
	}
}

// run builds the object. It ends with the request, before and after the work, which takes up to a second for a large body.
func (c change) run(ctx context.Context, old objects.Object) (objects.Object, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	obj, err := c.build(ctx, old)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return obj, err
}

// errRetry means that the cache was behind the store or that another write came first.
var errRetry = fmt.Errorf("retry: %w", store.ErrConflict)

// createAbsent makes a change that creates the object.
func (w *write) createAbsent(ctx context.Context, c change) (Result, error) {
	start := w.machine.Now()
	if c.uid != "" {
		return Result{}, apierrors.NewConflict(w.gr(), w.req.Name,
			preconditionFailed("UID", w.gr(), w.req.Namespace, w.req.Name, c.uid, ""))
	}
	obj, err := c.run(ctx, nil)
	if err != nil {
		return Result{}, w.status(err)
	}
	obj.SetResourceVersion("")
	a := w.admission(stage.Create, obj, nil)
	if err := w.mutate(ctx, a); err != nil {
		return Result{}, err
	}
	w.recordStage("admission", start)
	item, err := w.insert(ctx, a)
	return Result{Item: item, Created: err == nil}, err
}

// modifyOnce tries a change of the object as the cache has it.
func (w *write) modifyOnce(ctx context.Context, c change, item *cache.Item, attempt int) (Result, error) {
	start := w.machine.Now()
	item, old, err := item.Decoded()
	if err != nil {
		return Result{}, err
	}
	if c.uid != "" && c.uid != string(old.GetUID()) {
		if attempt == 0 {
			return Result{}, errRetry
		}
		return Result{}, apierrors.NewConflict(w.gr(), w.req.Name,
			preconditionFailed("UID", w.gr(), w.req.Namespace, w.req.Name, c.uid, string(old.GetUID())))
	}
	obj, err := c.run(ctx, old)
	if err != nil {
		return Result{}, err
	}
	conditional := obj.GetResourceVersion() != "" && !c.keepsVersion
	if err := w.checkVersion(obj, old); err != nil {
		if attempt == 0 && apierrors.IsConflict(err) {
			return Result{}, errRetry
		}
		return Result{}, err
	}
	obj.SetResourceVersion(old.GetResourceVersion()) // without a version the change applies to any
	a := w.admission(stage.Update, obj, old)
	if err := w.mutate(ctx, a); err != nil {
		return Result{}, err
	}
	w.recordStage("admission", start)
	res, err := w.replace(ctx, a, item)
	if errors.Is(err, store.ErrConflict) && !conditional {
		err = errRetry
	}
	return res, err
}

// replace is the part of an update that follows the mutators. item is that of a.Old.
func (w *write) replace(ctx context.Context, a *stage.Admission, item *cache.Item) (res Result, err error) {
	obj, old := a.Object, a.Old
	start := w.machine.Now()
	err = w.transact(ctx, func(tx *stage.Transaction) error {
		if err := w.runUpdateHooks(ctx, tx, obj, old); err != nil {
			return err
		}
		if err := w.prepare(obj, old); err != nil {
			return err
		}
		w.keepManagedFields(obj, old, item)
		if err := w.validate(ctx, a); err != nil {
			return err
		}
		if err := w.reserve(ctx, a, tx); err != nil {
			return err
		}
		w.recordStage("validation", start)
		if deletionComplete(obj, old) {
			res, err = w.removeDeleted(ctx, obj, item)
		} else {
			res.Item, err = w.commit(ctx, obj, item)
		}
		return err
	})
	return res, err
}

// runUpdateHooks runs the hooks for an update of the main resource. Updates of subresources change no field that hooks read.
func (w *write) runUpdateHooks(ctx context.Context, tx *stage.Transaction, obj, old objects.Object) error {
	if w.req.Subresource != "" {
		return nil
	}
	return w.runHooks(ctx, tx, obj, old)
}

// checkVersion compares the resourceVersion that a client sends with the stored one.
func (w *write) checkVersion(obj, old objects.Object) error {
	version := obj.GetResourceVersion()
	if version == "" || version == "0" {
		if !w.r.NeedsVersion || w.req.Subresource == "scale" { // a scale without a version applies to any
			return nil
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: w.gr().Group, Kind: w.gr().Resource}, w.req.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata").Child("resourceVersion"), 0, "must be specified for an update"),
		})
	}
	if _, err := strconv.ParseUint(version, 10, 64); err != nil {
		return plainStatus(err)
	}
	if version != old.GetResourceVersion() {
		return apierrors.NewConflict(w.gr(), w.req.Name, errors.New(objectModified))
	}
	return nil
}

// prepare resets the fields that a client may not change, and validates.
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
	errs = append(errs, w.validateVersion(obj, old)...)
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

// keepManagedFields copies old's managedFields to obj when they differ only in their times and the rest of obj equals old, so
// that the commit writes nothing. item is that of old.
func (w *write) keepManagedFields(obj, old objects.Object, item *cache.Item) {
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
			value = withoutServerFields(m)
			if m, ok := was.(map[string]any); ok {
				was = withoutServerFields(m)
			}
		}
		if !reflect.DeepEqual(value, was) {
			return false
		}
	}
	return true
}

func withoutServerFields(metadata map[string]any) map[string]any {
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
