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

	"github.com/minikctl/minikctl/pkg/apiserver/internal/patch"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// maxOperations bounds the operations of a JSON patch.
const maxOperations = 10000

// Patch changes an object by a JSON, merge or strategic merge patch of the requested version, or by server-side apply.
func (e *Engine) Patch(ctx context.Context, req *Request, p Patch, opts *metav1.PatchOptions) (Result, error) {
	if err := e.admit(ctx, req, "PatchOptions", optionsvalidation.ValidatePatchOptions(opts, p.Type)); err != nil {
		return Result{}, err
	}
	w, err := e.begin(req, opts.DryRun, stage.Options{FieldManager: opts.FieldManager, FieldValidation: opts.FieldValidation})
	if err != nil {
		return Result{}, err
	}
	if p.Type == types.ApplyYAMLPatchType {
		return w.apply(ctx, p.Data, opts)
	}
	if s, ok := subresourceOf(w.r, req.Subresource); ok {
		return w.modifyThrough(ctx, s, change{keepsVersion: true, build: func(ctx context.Context, view objects.Object) (objects.Object, error) {
			out, err := w.patchView(ctx, view, p, opts.FieldValidation)
			if err != nil {
				return nil, err
			}
			return out, w.track(view, out)
		}})
	}
	return w.modify(ctx, change{keepsVersion: true, build: func(ctx context.Context, old objects.Object) (objects.Object, error) {
		obj, err := w.patched(ctx, old, p, opts.FieldValidation)
		if err != nil {
			return nil, err
		}
		if err := w.checkPatched(obj); err != nil {
			return nil, err
		}
		return obj, w.track(old, obj)
	}})
}

// patchTarget is an object in the version of a patch.
type patchTarget struct {
	object  runtime.Object
	new     func() runtime.Object // returns an empty object of the same type
	version *objects.VersionOf    // decodes JSON; nil: the Go type does
}

// patched returns the patched copy of a stored object, in the stored version and with defaults.
func (w *write) patched(ctx context.Context, old objects.Object, p Patch, validation string) (objects.Object, error) {
	v := w.req.Version
	if v == nil || v.To == nil {
		out, err := w.patch(ctx, patchTarget{old, func() runtime.Object { return w.r.New() }, &w.r.Versions[0]}, p, validation)
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
	out, err := w.patch(ctx, patchTarget{from, v.New, v}, p, validation)
	if err != nil {
		return nil, err
	}
	v.Default(out)
	obj, err := v.To(out)
	if err != nil {
		return nil, err
	}
	if !w.r.DefaultsUnowned { // else track sets them
		w.r.Default(obj)
	}
	return obj, nil
}

// patchView returns the patched copy of a subresource's object.
func (w *write) patchView(ctx context.Context, view objects.Object, p Patch, validation string) (objects.Object, error) {
	empty := func() runtime.Object {
		return reflect.New(reflect.TypeOf(view).Elem()).Interface().(runtime.Object)
	}
	out, err := w.patch(ctx, patchTarget{view, empty, nil}, p, validation)
	if err != nil {
		return nil, err
	}
	obj, ok := out.(objects.Object)
	if !ok {
		return nil, wrongType(out)
	}
	return obj, w.checkPatched(obj)
}

// patch returns the patched copy of an object, of the same type.
func (w *write) patch(ctx context.Context, from patchTarget, p Patch, validation string) (runtime.Object, error) {
	switch {
	case !slices.Contains(w.r.PatchTypes, p.Type):
		return nil, unknownPatch(w.r.PatchTypes)
	case p.Type == types.StrategicMergePatchType:
		return w.patchStrategic(ctx, from, p.Data, validation)
	}
	return w.patchJSON(ctx, from, p, validation)
}

// unknownPatch returns the error of a patch whose type the resource does not accept.
func unknownPatch(accepted []types.PatchType) error {
	names := make([]string, len(accepted))
	for i, t := range accepted {
		names[i] = string(t)
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + strings.Join(names, ", "),
	}}
}

func (w *write) patchJSON(ctx context.Context, from patchTarget, p Patch, validation string) (runtime.Object, error) {
	before, err := json.Marshal(from.object)
	if err != nil {
		return nil, err
	}
	apply := mergeJSON
	if p.Type == types.JSONPatchType {
		apply = runJSONPatch
	}
	after, strict, err := apply(ctx, before, p.Data, validatesFields(validation))
	if err != nil {
		return nil, err
	}
	out := from.new()
	more, err := from.version.Unmarshal(after, out, validatesFields(validation))
	if err == nil && p.CheckKind != nil {
		err = p.CheckKind(out.GetObjectKind().GroupVersionKind())
	}
	if err != nil {
		return nil, badPatch(string(after), err)
	}
	if out.GetObjectKind().GroupVersionKind().GroupVersion().Empty() && !w.r.Versionless {
		return nil, w.missingName() // Kubernetes decodes such an object without its fields
	}
	return out, w.reportStrict(string(after), append(strict, more...), validation)
}

// validatesFields reports whether a fieldValidation reports unknown and duplicate fields.
func validatesFields(validation string) bool {
	return validation == metav1.FieldValidationStrict || validation == metav1.FieldValidationWarn || validation == ""
}

// reportStrict adds warnings about unknown and duplicate fields, or refuses them.
func (w *write) reportStrict(value string, strict []error, validation string) error {
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

// badPatch returns the error of a patch whose result cannot be decoded.
func badPatch(value string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), value, err.Error())})
}

// jsonPatchOp is an operation of a JSON patch, decoded to find unknown fields. Its type's name occurs in messages.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func runJSONPatch(ctx context.Context, doc, data []byte, check bool) (after []byte, strict []error, err error) {
	// Decoding a million small operations would take more memory than the body, so they are counted first.
	if n := patch.Count(data); n > maxOperations && json.Valid(data) {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, n))
	}
	if check {
		var ops []jsonPatchOp
		if strict, err = kjson.UnmarshalStrict(data, &ops); err != nil {
			text := strings.ReplaceAll(err.Error(), "verbs.jsonPatchOp", "handlers.jsonPatchOp") // the package of Kubernetes' type
			return nil, nil, apierrors.NewBadRequest("error decoding patch: " + text)
		}
		for i, e := range strict {
			strict[i] = fmt.Errorf("json patch %w", e)
		}
	}
	steps, err := patch.Decode(data)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	after, err = patch.Apply(ctx, doc, steps, patch.MaxCopied)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, nil, unprocessable(err)
	}
	return after, strict, nil
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

func mergeJSON(_ context.Context, doc, data []byte, check bool) (after []byte, strict []error, err error) {
	if check {
		if strict, err = kjson.UnmarshalStrict(data, &map[string]any{}); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
	}
	after, err = patch.Merge(doc, data)
	if errors.Is(err, patch.ErrBadPatch) {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return after, strict, err
}

func (w *write) patchStrategic(ctx context.Context, from patchTarget, data []byte, validation string) (runtime.Object, error) {
	patch := map[string]any{}
	var strict []error
	var err error
	if validatesFields(validation) {
		strict, err = kjson.UnmarshalStrict(data, &patch)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &patch)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out, object := from.new(), from.object
	parts, divided := divide(object, patch)
	if divided {
		object = parts.part(true)
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(out)
	if err != nil {
		return nil, err
	}
	if err := checkStrategic(before, patch, schema); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	after, err := strategicpatch.StrategicMergeMapPatchUsingLookupPatchMeta(before, patch, schema)
	if err != nil {
		return nil, strategicError(err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(after, out, validatesFields(validation))
	if e, ok := runtime.AsStrictDecodingError(err); ok {
		strict, err = append(strict, e.Errors()...), nil
	}
	if err == nil && (len(strict) == 0 || validation != metav1.FieldValidationStrict) {
		if divided {
			parts.complete(out)
		}
		return out, w.reportStrict("", strict, validation)
	}
	shown := fmt.Sprintf("%+v", patch) // takes as long as the merge
	if err != nil {
		return nil, badPatch(shown, err)
	}
	return nil, w.reportStrict(shown, strict, validation)
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
