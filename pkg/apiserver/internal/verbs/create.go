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
	suffixLength  = 5
	maxBaseLength = 63 - suffixLength // of generateName in a generated name
	nameAttempts  = 8                 // to find a generated name that is free
)

// Create stores a new object, or creates through a subresource.
func (e *Engine) Create(ctx context.Context, req *Request, body Body, opts *metav1.CreateOptions) (Result, error) {
	if err := e.admit(ctx, req, "CreateOptions", optionsvalidation.ValidateCreateOptions(opts)); err != nil {
		return Result{}, err
	}
	if b := e.backend(req); b != nil {
		return e.backendCreate(ctx, b, req, body, opts)
	}
	w, err := e.begin(req, opts.DryRun, stage.Options{FieldManager: opts.FieldManager, FieldValidation: opts.FieldValidation})
	if err != nil {
		return Result{}, err
	}
	obj, err := req.object(body)
	if err != nil {
		return Result{}, err
	}
	if _, ok := subresourceOf(w.r, req.Subresource); ok || req.Subresource != "" {
		return w.createThrough(ctx, obj)
	}
	in, ok := obj.(objects.Object)
	if !ok {
		return Result{}, noMetadata(obj)
	}
	if review := w.config.Reviews[w.gr()]; review != nil {
		return w.review(ctx, in, review)
	}
	item, err := w.create(ctx, in)
	return Result{Item: item, Created: err == nil}, err
}

// object reads the object of a request and checks its namespace.
func (req *Request) object(body Body) (runtime.Object, error) {
	obj, err := body()
	if err != nil {
		return nil, err
	}
	if o, ok := obj.(metav1.Object); ok {
		err = inNamespace(o, req.objectNamespace())
	}
	return obj, err
}

func noMetadata(obj runtime.Object) error {
	return apierrors.NewInternalError(fmt.Errorf("%T has no metadata", obj))
}

func invalidOptions(kind string, errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// create stores a new object. When a generated name is in use, it generates another one, without another admission.
func (w *write) create(ctx context.Context, obj objects.Object) (*cache.Item, error) {
	start := w.machine.Now()
	wipeSystemFields(obj)
	generated := obj.GetName() == "" && obj.GetGenerateName() != ""
	if !generated && w.req.Name == "" {
		w.req.Name = obj.GetName()
	}
	w.dedupOwnerReferences(obj, false)
	if err := w.track(nil, obj); err != nil {
		return nil, err
	}
	a := w.admission(stage.Create, obj, nil)
	if err := w.mutate(ctx, a); err != nil {
		return nil, err
	}
	w.dedupOwnerReferences(obj, true)
	w.recordStage("admission", start)
	for attempt := 1; ; attempt++ {
		item, err := w.insert(ctx, a)
		if !generated || !apierrors.IsAlreadyExists(err) || attempt == nameAttempts {
			return item, err
		}
		obj.SetName("")
	}
}

// insert is the part of a create that follows the mutators. Updates and applies that create use it too.
func (w *write) insert(ctx context.Context, a *stage.Admission) (item *cache.Item, err error) {
	obj := a.Object
	start := w.machine.Now()
	fillSystemFields(obj, w.Engine)
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(w.generate(obj.GetGenerateName()))
	}
	err = w.transact(ctx, func(tx *stage.Transaction) error {
		if err := w.runHooks(ctx, tx, obj, nil); err != nil {
			return err
		}
		w.r.Prepare(obj, nil)
		if err := w.validateNew(obj); err != nil {
			return err
		}
		if err := w.validate(ctx, a); err != nil {
			return err
		}
		if err := w.reserve(ctx, a, tx); err != nil {
			return err
		}
		w.recordStage("validation", start)
		item, err = w.commitNew(ctx, obj)
		return err
	})
	return item, err
}

// commitNew stores obj, which must not be stored yet.
func (w *write) commitNew(ctx context.Context, obj objects.Object) (*cache.Item, error) {
	var err error
	if w.dry {
		err = w.absent(ctx, obj)
	} else if v, parseErr := parseVersion(obj.GetResourceVersion()); parseErr == nil && v != 0 {
		err = errVersionSet
	}
	var item *cache.Item
	if err == nil {
		item, err = w.commit(ctx, obj, nil)
	}
	if err != nil {
		return nil, w.createError(ctx, obj, err)
	}
	return item, nil
}

// errVersionSet is the error of a create with a resourceVersion.
var errVersionSet = plainStatus(errors.New("resourceVersion should not be set on objects to be created"))

// absent returns ErrConflict when obj exists, as the store does for a create that is no dry run.
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

// createError turns the error of a create's commit into a Status.
func (w *write) createError(ctx context.Context, obj objects.Object, err error) error {
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

// deleting reports whether the stored object with obj's name is being deleted.
func (w *write) deleting(ctx context.Context, obj objects.Object) bool {
	item, err := w.current(ctx, w.table, objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()})
	if err != nil {
		return false
	}
	there, err := item.Object()
	return err == nil && there.GetDeletionTimestamp() != nil
}

// wipeSystemFields resets the metadata that only the server sets. It precedes track, so that no manager owns them.
func wipeSystemFields(obj metav1.Object) {
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetUID("")
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
}

// fillSystemFields sets the metadata of a new object that only the server sets.
func fillSystemFields(obj objects.Object, e *Engine) {
	wipeSystemFields(obj)
	obj.SetCreationTimestamp(metav1.NewTime(e.config.Clock.Now().Truncate(time.Second)))
	obj.SetUID(e.config.Source.UID())
}

func (w *write) generate(base string) string {
	return base[:min(len(base), maxBaseLength)] + w.config.Source.Suffix(suffixLength)
}

// pathSegment returns the reasons why a name, or with prefix the start of one, cannot be part of a URL's path.
func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// validateNew validates a new object by the rules of the row and of the requested version, and adds the row's warnings. The
// row validates the metadata too, except that a name must fit in a URL's path.
func (w *write) validateNew(obj objects.Object) error {
	errs := append(w.r.Validate(obj, nil), w.validateVersion(obj, nil)...)
	if len(errs) == 0 {
		errs = validation.ValidateObjectMetaAccessor(obj, !w.r.Names.Cluster, pathSegment, field.NewPath("metadata"))
	}
	if err := w.invalid(obj.GetName(), errs); err != nil {
		return err
	}
	w.warn(w.r.Warnings(obj, nil))
	return nil
}

// validateVersion validates obj by the rules of the requested version. They apply to a write through the scale subresource
// only where the row has no rules for scales.
func (w *write) validateVersion(obj, old objects.Object) field.ErrorList {
	v := w.requestedVersion()
	check := v.Validate
	switch w.req.Subresource {
	case "":
	case "status":
		check = v.ValidateStatus
	case "scale":
		if w.r.Scale.Validate != nil {
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

// dedupOwnerReferences removes duplicate owner references and adds a warning. mutated: admission has run.
func (w *write) dedupOwnerReferences(obj metav1.Object, mutated bool) {
	refs := obj.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	duplicates := sets.New[string]()
	kept := make([]metav1.OwnerReference, 0, len(refs))
	var seen check.Seen[owner]
	for _, ref := range refs {
		if seen.Again(ownerOf(ref)) {
			duplicates.Insert(string(ref.UID))
			continue
		}
		kept = append(kept, ref)
	}
	if len(duplicates) == 0 {
		return
	}
	obj.SetOwnerReferences(kept)
	format := duplicateOwners
	if mutated {
		format = duplicateOwnersMutated
	}
	w.req.Warn(fmt.Sprintf(format, strings.Join(sets.List(duplicates), ", ")))
}

const (
	duplicateOwners = ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; " +
		"please fix your requests; duplicate UID(s) observed: %v"
	duplicateOwnersMutated = ".metadata.ownerReferences contains duplicate entries after mutating admission happens; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; " +
		"please fix your requests; duplicate UID(s) observed: %v"
)

// owner is a comparable OwnerReference.
type owner struct {
	version, kind, name string
	uid                 types.UID
	controller, blocks  byte
}

func ownerOf(r metav1.OwnerReference) owner {
	code := func(b *bool) byte {
		switch {
		case b == nil:
			return 0
		case *b:
			return 1
		}
		return 2
	}
	return owner{r.APIVersion, r.Kind, r.Name, r.UID, code(r.Controller), code(r.BlockOwnerDeletion)}
}
