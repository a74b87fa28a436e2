package verbs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	optionsvalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/store"
)

const (
	generatedSuffix = 5
	longestBase     = 63 - generatedSuffix // of a generated name
	nameAttempts    = 8                    // how many generated names are tried
)

// Create stores a new object, or creates through a subresource.
func (e *Engine) Create(ctx context.Context, req *Request, obj runtime.Object, opts *metav1.CreateOptions) (Result, error) {
	if errs := optionsvalidation.ValidateCreateOptions(opts); len(errs) > 0 {
		return Result{}, invalidOptions("CreateOptions", errs)
	}
	w, err := e.begin(ctx, req, opts.DryRun, stage.Options{FieldManager: opts.FieldManager, FieldValidation: opts.FieldValidation})
	if err != nil {
		return Result{}, err
	}
	if _, ok := subresourceOf(w.r, req.Subresource); ok || req.Subresource != "" {
		return w.connect(ctx, obj)
	}
	in, ok := obj.(objects.Object)
	if !ok {
		return Result{}, apierrors.NewInternalError(fmt.Errorf("%T has no metadata", obj))
	}
	if answer := w.config.Reviews[w.gr()]; answer != nil {
		return w.review(ctx, in, answer)
	}
	item, err := w.create(ctx, in)
	return Result{Item: item, Created: err == nil}, err
}

func invalidOptions(kind string, errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// create is what a POST does. A generated name that is taken is drawn again, without another admission.
func (w *write) create(ctx context.Context, obj objects.Object) (*cache.Item, error) {
	start := w.config.Clock.Now()
	wipeSystemFields(obj)
	if err := inNamespace(obj, w.namespace()); err != nil {
		return nil, err
	}
	generated := obj.GetName() == "" && obj.GetGenerateName() != ""
	if !generated && w.req.Name == "" {
		w.req.Name = obj.GetName()
	}
	w.onceOwners(obj, false)
	if err := w.track(nil, obj); err != nil {
		return nil, err
	}
	a := w.admission(stage.Create, obj, nil)
	if err := w.mutate(ctx, a); err != nil {
		return nil, err
	}
	w.onceOwners(obj, true)
	w.took("admission", start)
	for attempt := 1; ; attempt++ {
		item, err := w.insert(ctx, a)
		if !generated || !apierrors.IsAlreadyExists(err) || attempt == nameAttempts {
			return item, err
		}
		obj.SetName("")
	}
}

// namespace is the namespace that the request's objects are in.
func (w *write) namespace() string {
	if w.r.Names.Cluster {
		return ""
	}
	return w.req.Namespace
}

// insert is the part of a create that follows admission; a PUT and an apply that create share it.
func (w *write) insert(ctx context.Context, a *stage.Admission) (*cache.Item, error) {
	obj := a.Object
	start := w.config.Clock.Now()
	fillSystemFields(obj, w.Engine)
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(w.generate(obj.GetGenerateName()))
	}
	var tx stage.Transaction
	defer tx.Rollback(ctx)
	err := w.hook(ctx, &tx, obj, nil)
	if err != nil {
		return nil, err
	}
	w.r.Prepare(obj, nil)
	if err = w.validateNew(obj); err != nil {
		return nil, err
	}
	if err = w.validate(ctx, a); err != nil {
		return nil, err
	}
	if err = w.reserve(ctx, a, &tx); err != nil {
		return nil, err
	}
	w.took("validation", start)
	var item *cache.Item
	if w.dry {
		err = w.absent(ctx, obj)
	} else if v, parseErr := parseVersion(obj.GetResourceVersion()); parseErr == nil && v != 0 {
		err = errVersionSet
	}
	if err == nil {
		item, err = w.commit(ctx, obj, nil)
	}
	if err != nil {
		return nil, w.exists(ctx, obj, err)
	}
	if !w.dry {
		tx.Commit(ctx)
	}
	return item, nil
}

// errVersionSet is the answer to a create that names the version of what is there.
var errVersionSet = plain(errors.New("resourceVersion should not be set on objects to be created"))

// absent is the store's expectation, for a dry run.
func (w *write) absent(ctx context.Context, obj objects.Object) error {
	_, err := w.current(ctx, w.table, objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		return store.ErrConflict
	}
	return err
}

// exists is the answer to a create whose write has failed.
func (w *write) exists(ctx context.Context, obj objects.Object, err error) error {
	if !errors.Is(err, store.ErrConflict) {
		return toStatus(w.gr(), obj.GetName(), err)
	}
	if obj.GetGenerateName() != "" {
		return apierrors.NewGenerateNameConflict(w.gr(), obj.GetName(), 1)
	}
	status := apierrors.NewAlreadyExists(w.gr(), obj.GetName())
	if w.deleting(ctx, obj) {
		status.ErrStatus.Message = "object is being deleted: " + status.ErrStatus.Message
	}
	return status
}

// deleting reports whether what has obj's name is on its way out.
func (w *write) deleting(ctx context.Context, obj objects.Object) bool {
	item, err := w.current(ctx, w.table, objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()})
	if err != nil {
		return false
	}
	there, err := item.Object()
	return err == nil && there.GetDeletionTimestamp() != nil
}

// wipeSystemFields takes back what only the server sets, before somebody is noted as its owner.
func wipeSystemFields(obj metav1.Object) {
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetUID("")
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
}

// fillSystemFields sets what only the server may.
func fillSystemFields(obj objects.Object, e *Engine) {
	wipeSystemFields(obj)
	obj.SetCreationTimestamp(metav1.NewTime(e.config.Clock.Now().Truncate(time.Second)))
	obj.SetUID(e.config.Source.UID())
}

func (w *write) generate(base string) string {
	return base[:min(len(base), longestBase)] + w.config.Source.Suffix(generatedSuffix)
}

// pathSegment says what keeps a name, or with prefix the beginning of one, from standing in a path.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// validateNew checks the row's own rules, which hold those of its metadata, and what every name must meet to stand in a
// path; and tells the row's warnings.
func (w *write) validateNew(obj objects.Object) error {
	errs := append(w.r.Validate(obj, nil), w.validateServed(obj, nil)...)
	if len(errs) == 0 {
		errs = validation.ValidateObjectMetaAccessor(obj, !w.r.Names.Cluster, pathSegment, field.NewPath("metadata"))
	}
	if err := w.invalid(obj.GetName(), errs); err != nil {
		return err
	}
	w.warn(w.r.Warnings(obj, nil))
	return nil
}

// validateServed checks what the version that was asked for demands besides. For a custom resource that is all there is to
// say of its fields, so it also holds for what is written by way of a scale.
func (w *write) validateServed(obj, old objects.Object) field.ErrorList {
	v := w.served()
	check := v.Validate
	switch w.req.Subresource {
	case "":
	case "status":
		check = v.ValidateStatus
	case "scale":
		if !w.r.Custom() {
			return nil
		}
	default:
		return nil
	}
	if check == nil {
		return nil
	}
	return check(obj, old)
}

func (w *write) warn(texts []string) {
	for _, text := range texts {
		w.req.Warn(text)
	}
}

// onceOwners removes owners that are named twice, and says so.
func (w *write) onceOwners(obj metav1.Object, mutated bool) {
	refs := obj.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	twice := sets.New[string]()
	kept := make([]metav1.OwnerReference, 0, len(refs))
	var seen check.Seen[owner]
	for _, ref := range refs {
		if seen.Again(ownerOf(ref)) {
			twice.Insert(string(ref.UID))
			continue
		}
		kept = append(kept, ref)
	}
	if len(twice) == 0 {
		return
	}
	obj.SetOwnerReferences(kept)
	format := duplicateOwners
	if mutated {
		format = duplicateOwnersMutated
	}
	w.req.Warn(fmt.Sprintf(format, strings.Join(sets.List(twice), ", ")))
}

const (
	duplicateOwners = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; " +
		"please fix your requests; duplicate UID(s) observed: %v"
	duplicateOwnersMutated = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; " +
		"please fix your requests; duplicate UID(s) observed: %v"
)

// owner is an OwnerReference as one that can be compared.
type owner struct {
	version, kind, name string
	uid                 types.UID
	controller, blocks  byte
}

func ownerOf(r metav1.OwnerReference) owner {
	said := func(b *bool) byte {
		switch {
		case b == nil:
			return 0
		case *b:
			return 1
		}
		return 2
	}
	return owner{r.APIVersion, r.Kind, r.Name, r.UID, said(r.Controller), said(r.BlockOwnerDeletion)}
}
