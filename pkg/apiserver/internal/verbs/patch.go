package verbs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	optionsvalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// maxOperations bounds a JSON patch, and maxCopied how many bytes its copy operations may add: a few of them, each doubling
// what the one before has made, would take all memory.
const (
	maxOperations = 10000
	maxCopied     = 3 << 20
)

// boundCopies tells the library, which has one bound for the whole process, before anybody may be using it.
var boundCopies = sync.OnceFunc(func() { jsonpatch.AccumulatedCopySizeLimit = maxCopied })

// Patch changes an object by a description of the change: a JSON, merge or strategic merge patch of the version that was
// asked for, or a configuration that is applied.
func (e *Engine) Patch(ctx context.Context, req *Request, p Patch, opts *metav1.PatchOptions) (Result, error) {
	if errs := optionsvalidation.ValidatePatchOptions(opts, p.Type); len(errs) > 0 {
		return Result{}, invalidOptions("PatchOptions", errs)
	}
	w, err := e.begin(ctx, req, opts.DryRun, stage.Options{FieldManager: opts.FieldManager, FieldValidation: opts.FieldValidation})
	if err != nil {
		return Result{}, err
	}
	if p.Type == types.ApplyYAMLPatchType {
		return w.apply(ctx, p.Data, opts)
	}
	if s, ok := subresourceOf(w.r, req.Subresource); ok {
		return w.setThrough(ctx, s, change{patched: true, build: func(_ context.Context, view objects.Object) (objects.Object, error) {
			out, err := w.patchView(view, p, opts.FieldValidation)
			if err != nil {
				return nil, err
			}
			return out, w.track(view, out)
		}})
	}
	return w.modify(ctx, change{patched: true, build: func(_ context.Context, old objects.Object) (objects.Object, error) {
		obj, err := w.patched(old, p, opts.FieldValidation)
		if err != nil {
			return nil, err
		}
		if err := w.named(obj); err != nil {
			return nil, err
		}
		return obj, w.track(old, obj)
	}})
}

// versioned is an object of the version that was asked for, with how to make another one.
type versioned struct {
	object runtime.Object
	fresh  func() runtime.Object
	served *objects.Served // nil: the Go type says all
}

// patched returns what a patch makes of a stored object, of the stored version again, with defaults.
func (w *write) patched(old objects.Object, p Patch, validation string) (objects.Object, error) {
	v := w.req.Served
	if v == nil || v.To == nil {
		out, err := w.patch(versioned{old, func() runtime.Object { return w.r.New() }, &w.r.Versions[0]}, p, validation)
		if err != nil {
			return nil, err
		}
		obj := out.(objects.Object)
		w.r.Default(obj)
		return obj, nil
	}
	from, err := v.From(old)
	if err != nil {
		return nil, err
	}
	from.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: v.Group, Version: v.Version, Kind: w.r.Names.Kind})
	out, err := w.patch(versioned{from, v.New, v}, p, validation)
	if err != nil {
		return nil, err
	}
	v.Default(out)
	obj, err := v.To(out)
	if err != nil {
		return nil, err
	}
	if !w.r.Custom() { // track does it
		w.r.Default(obj)
	}
	return obj, nil
}

// patchView returns what a patch makes of a subresource's object.
func (w *write) patchView(view objects.Object, p Patch, validation string) (objects.Object, error) {
	fresh := func() runtime.Object {
		return reflect.New(reflect.TypeOf(view).Elem()).Interface().(runtime.Object)
	}
	out, err := w.patch(versioned{view, fresh, nil}, p, validation)
	if err != nil {
		return nil, err
	}
	obj, ok := out.(objects.Object)
	if !ok {
		return nil, wrongType(out)
	}
	return obj, w.named(obj)
}

// patch applies a patch to an object and returns the new one, of the same type.
func (w *write) patch(from versioned, p Patch, validation string) (runtime.Object, error) {
	switch allowed := patchTypes(w.r); {
	case !slices.Contains(allowed, string(p.Type)):
		return nil, unknownPatch(allowed)
	case p.Type == types.StrategicMergePatchType:
		return w.patchStrategic(from, p.Data, validation)
	}
	return w.patchJSON(from, p, validation)
}

// patchTypes lists how objects of a resource can be patched, as error messages do. A strategic merge goes by Go types,
// which kinds known at run time only have not.
func patchTypes(r *objects.Resource) []string {
	out := []string{string(types.JSONPatchType), string(types.MergePatchType)}
	if !r.Custom() {
		out = append(out, string(types.StrategicMergePatchType))
	}
	return append(out, string(types.ApplyYAMLPatchType))
}

// unknownPatch is the answer to a patch of another kind than those that are allowed.
func unknownPatch(allowed []string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + strings.Join(allowed, ", "),
	}}
}

func (w *write) patchJSON(from versioned, p Patch, validation string) (runtime.Object, error) {
	before, err := json.Marshal(from.object)
	if err != nil {
		return nil, err
	}
	apply := mergeJSON
	if p.Type == types.JSONPatchType {
		apply = runJSONPatch
	}
	after, strict, err := apply(before, p.Data, checks(validation))
	if err != nil {
		return nil, err
	}
	out := from.fresh()
	more, err := from.served.Unmarshal(after, out, checks(validation))
	if err == nil && p.Kind != nil {
		err = p.Kind(out.GetObjectKind().GroupVersionKind())
	}
	if err != nil {
		return nil, badPatch(string(after), err)
	}
	if out.GetObjectKind().GroupVersionKind().GroupVersion().Empty() && !w.r.Custom() {
		return nil, w.nameless() // of no version are types that Kubernetes reads nothing into
	}
	return out, w.complain(string(after), append(strict, more...), validation)
}

// checks reports whether unknown and duplicate fields are looked for.
func checks(validation string) bool {
	return validation == metav1.FieldValidationStrict || validation == metav1.FieldValidationWarn || validation == ""
}

// complain warns about unknown and duplicate fields, or refuses them.
func (w *write) complain(value string, strict []error, validation string) error {
	if len(strict) == 0 {
		return nil
	}
	if validation == metav1.FieldValidationStrict {
		return badPatch(value, runtime.NewStrictDecodingError(strict))
	}
	for _, err := range strict {
		w.req.Warn(err.Error())
	}
	return nil
}

// badPatch is the answer to a patch whose outcome cannot be read.
func badPatch(value string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), value, err.Error())})
}

// jsonPatchOp is one step of a JSON patch, to find fields that it should not have. Messages tell its name.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func runJSONPatch(doc, patch []byte, check bool) (after []byte, strict []error, err error) {
	if check {
		var ops []jsonPatchOp
		if strict, err = kjson.UnmarshalStrict(patch, &ops); err != nil {
			text := strings.ReplaceAll(err.Error(), "verbs.jsonPatchOp", "handlers.jsonPatchOp") // where Kubernetes has it
			return nil, nil, apierrors.NewBadRequest("error decoding patch: " + text)
		}
		for i, e := range strict {
			strict[i] = fmt.Errorf("json patch %w", e)
		}
	}
	steps, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if len(steps) > maxOperations {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(steps)))
	}
	if after, err = steps.Apply(doc); err != nil {
		return nil, nil, unprocessable(err)
	}
	return after, strict, nil
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

func mergeJSON(doc, patch []byte, check bool) (after []byte, strict []error, err error) {
	if check {
		if strict, err = kjson.UnmarshalStrict(patch, &map[string]any{}); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
	}
	after, err = jsonpatch.MergePatch(doc, patch)
	if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return after, strict, err
}

func (w *write) patchStrategic(from versioned, data []byte, validation string) (runtime.Object, error) {
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(from.object)
	if err != nil {
		return nil, err
	}
	patch := map[string]any{}
	var strict []error
	if checks(validation) {
		strict, err = kjson.UnmarshalStrict(data, &patch)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &patch)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out := from.fresh()
	after, err := strategicpatch.StrategicMergeMapPatch(before, patch, out)
	if err != nil {
		return nil, strategicError(err)
	}
	shown := fmt.Sprintf("%+v", patch)
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(after, out, checks(validation))
	if e, ok := runtime.AsStrictDecodingError(err); ok {
		return out, w.complain(shown, append(strict, e.Errors()...), validation)
	}
	if err != nil {
		return nil, badPatch(shown, err)
	}
	return out, w.complain(shown, strict, validation)
}

func strategicError(err error) error {
	switch {
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return unprocessable(err)
	}
	return err
}
