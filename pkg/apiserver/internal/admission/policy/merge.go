package policy

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/admission/match"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
)

// merged merges the apply configuration that an expression evaluates to into an object. It records no field owner.
func merged(q *match.Request, v match.Version, obj runtime.Object, r plugincel.EvaluationResult) ([]byte, error) {
	made, ok := r.EvalResult.(*dynamic.ObjectVal)
	if !ok {
		return nil, fmt.Errorf("unsupported return type from ApplyConfiguration expression: %v", r.EvalResult.Type())
	}
	if err := made.CheckTypeNamesMatchFieldPathNames(); err != nil {
		return nil, fmt.Errorf("type mismatch: %w", err)
	}
	content, ok := made.Value().(map[string]any)
	if !ok {
		return nil, fmt.Errorf("invalid return type: %T", r.EvalResult)
	}
	patch := &unstructured.Unstructured{Object: content}
	patch.SetGroupVersionKind(v.Kind)
	after, err := merge(q, obj, patch)
	if err != nil {
		return nil, fmt.Errorf("error applying patch: %w", err)
	}
	return after, nil
}

func merge(q *match.Request, obj runtime.Object, patch *unstructured.Unstructured) ([]byte, error) {
	types, err := track.Types(q.Admission().Resource)
	if err != nil {
		return nil, err
	}
	change, err := types.ObjectToTyped(patch)
	if err != nil {
		return nil, fmt.Errorf("failed to convert patch object to typed object: %w", err)
	}
	if whole := atomics(nil, change.Schema(), change.TypeRef(), change.AsValue()); len(whole) > 0 {
		return nil, fmt.Errorf("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: %v", strings.Join(whole, ", "))
	}
	live, err := types.ObjectToTyped(obj, typed.AllowDuplicates)
	if err != nil {
		return nil, fmt.Errorf("failed to convert original object to typed object: %w", err)
	}
	out, err := live.Merge(change)
	if err != nil {
		return nil, fmt.Errorf("failed to merge patch: %w", err)
	}
	after, err := types.TypedToObject(out)
	if err != nil {
		return nil, fmt.Errorf("failed to convert typed object to object: %w", err)
	}
	return json.Marshal(after)
}

// atomics returns the paths of atomic lists and maps in a configuration. Merging them would replace them as a whole.
func atomics(at fieldpath.Path, s *schema.Schema, ref schema.TypeRef, v value.Value) []string {
	t, ok := s.Resolve(ref)
	if !ok {
		return nil
	}
	var out []string
	below := func(e fieldpath.PathElement, ref schema.TypeRef, v value.Value) {
		out = append(out, atomics(append(at[:len(at):len(at)], e), s, ref, v)...)
	}
	switch {
	case v.IsMap() && t.Map != nil:
		if t.Map.ElementRelationship == schema.Atomic {
			out = append(out, textOf(at))
		}
		v.AsMap().Iterate(func(key string, v value.Value) bool {
			ref := t.Map.ElementType
			if f, ok := t.Map.FindField(key); ok {
				ref = f.Type
			}
			below(fieldpath.PathElement{FieldName: &key}, ref, v)
			return true
		})
	case v.IsList() && t.List != nil:
		if t.List.ElementRelationship == schema.Atomic {
			out = append(out, textOf(at))
		}
		list := v.AsList()
		for i := range list.Length() {
			below(fieldpath.PathElement{Index: &i}, t.List.ElementType, list.At(i))
		}
	}
	return out
}

func textOf(at fieldpath.Path) string {
	var b strings.Builder
	for _, e := range at {
		b.WriteString(e.String())
	}
	return b.String()
}
