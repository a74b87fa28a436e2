// Package typecheck compiles the expressions of a ValidatingAdmissionPolicy against the types that it matches. Admission
// evaluates them on objects of any type; here object, oldObject and params have the types that the API describes.
package typecheck

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Types provides the types of the API. Check may request a type several times.
type Types interface {
	// Kinds returns the kinds of a resource, none if it is not served.
	Kinds(schema.GroupVersionResource) ([]schema.GroupVersionKind, error)
	// Declare returns the CEL type of a kind, false if the API does not describe it.
	Declare(schema.GroupVersionKind) (d Declared, ok bool, err error)
}

// Check returns warnings about the expressions of a policy, for each kind that it names. It returns an error if the types
// could not be read.
func Check(p *admissionv1.ValidatingAdmissionPolicy, types Types) ([]admissionv1.ExpressionWarning, error) {
	all, err := typeEnvs(p, types)
	if err != nil {
		return nil, err
	}
	var out []admissionv1.ExpressionWarning
	at := field.NewPath("spec", "validations")
	for i, v := range p.Spec.Validations {
		for _, e := range []struct{ name, source string }{{"expression", v.Expression}, {"messageExpression", v.MessageExpression}} {
			if e.source == "" {
				continue
			}
			if text := warning(all, e.source); text != "" {
				out = append(out, admissionv1.ExpressionWarning{FieldRef: at.Index(i).Child(e.name).String(), Warning: text})
			}
		}
	}
	return out, nil
}

// typeEnvs returns the environments of a policy's expressions, one for each kind that it names and that the API describes.
func typeEnvs(p *admissionv1.ValidatingAdmissionPolicy, types Types) ([]*typeEnv, error) {
	kinds, err := matchedKinds(p, types)
	if err != nil || len(kinds) == 0 {
		return nil, err
	}
	var params *Declared
	if k := p.Spec.ParamKind; k != nil {
		d, _, err := types.Declare(schema.FromAPIVersionAndKind(k.APIVersion, k.Kind))
		if err != nil {
			return nil, err
		}
		params = &d
	}
	var out []*typeEnv
	for _, kind := range kinds {
		object, ok, err := types.Declare(kind)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		s, err := newTypeEnv(kind, object, params, p.Spec.Variables)
		if err != nil {
			return nil, fmt.Errorf("declare %v: %w", kind, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// warning returns the errors of an expression for all kinds.
func warning(all []*typeEnv, source string) string {
	var out []string
	for _, s := range all {
		if issues := s.issues(source); issues != "" {
			out = append(out, issues)
		}
	}
	return strings.Join(out, "\n")
}
