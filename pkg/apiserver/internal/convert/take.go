package convert

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// objectError is an error in an object that a webhook has returned.
type objectError struct {
	of  part
	err error
}

// part is the part of the object with the flaw.
type part int

const (
	encoding part = iota
	kind
	identity
	metadata
)

func (f *objectError) Error() string { return f.err.Error() }

// in returns the error for a flaw of the object at index in a response. As in Kubernetes, the message depends on whether
// the review has one object or many.
func (f *objectError) in(of schema.GroupVersionKind, index int, many bool) error {
	where := fmt.Sprintf("converted object at index %d", index)
	switch {
	case many && f.of == metadata:
		where = fmt.Sprintf("metadata in object at index %d", index)
	case many:
	case f.of == encoding:
		return f.err
	case f.of == kind:
		where = "object at index 0"
	case f.of == identity:
		where = "object"
	default:
		where = "metadata"
	}
	return fmt.Errorf("conversion webhook for %v returned invalid %s: %w", of, where, f.err)
}

// checkConverted returns the converted object of sent, after it has checked it.
func checkConverted(sent *unstructured.Unstructured, got json.RawMessage, to schema.GroupVersion) (*unstructured.Unstructured, *objectError) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(got); err != nil {
		return nil, &objectError{encoding, err}
	}
	if gv := u.GroupVersionKind().GroupVersion(); gv != to {
		return nil, &objectError{kind, fmt.Errorf("invalid groupVersion (expected %v, received %v)", to, gv)}
	}
	if want, is := sent.GetKind(), u.GetKind(); want != is {
		return nil, &objectError{kind, fmt.Errorf("invalid kind (expected %v, received %v)", want, is)}
	}
	if err := same(sent, u); err != nil {
		return nil, &objectError{identity, err}
	}
	if err := restoreMetadata(sent, u); err != nil {
		return nil, &objectError{metadata, err}
	}
	return u, nil
}

// same checks that the identity of an object is unchanged.
func same(sent, got *unstructured.Unstructured) error {
	for _, c := range []struct{ what, want, is string }{
		{"name", sent.GetName(), got.GetName()},
		{"namespace", sent.GetNamespace(), got.GetNamespace()},
		{"UID", string(sent.GetUID()), string(got.GetUID())},
	} {
		if c.want != c.is {
			return fmt.Errorf("must have the same %s: %v != %v", c.what, c.want, c.is)
		}
	}
	return nil
}

// restoreMetadata restores the metadata of the sent object, except for labels and annotations.
func restoreMetadata(sent, got *unstructured.Unstructured) error {
	value, found := got.Object["metadata"]
	if !found {
		return errors.New("missing metadata in converted object")
	}
	back, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata of type %T in converted object", value)
	}
	fields := map[string]any{}
	if was, ok := sent.Object["metadata"]; ok {
		m, ok := was.(map[string]any)
		if !ok {
			return fmt.Errorf("invalid metadata of type %T in input object", was)
		}
		fields = runtime.DeepCopyJSON(m)
	}
	got.Object["metadata"] = fields
	for _, name := range []string{"labels", "annotations"} {
		if err := takeTexts(fields, back, name); err != nil {
			return err
		}
	}
	return nil
}

// takeTexts copies returned labels or annotations, and validates those that have changed.
func takeTexts(fields, back map[string]any, name string) error {
	value := back[name]
	if value == nil {
		delete(fields, name)
		return nil
	}
	texts, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata.%s of type %T in converted object", name, value)
	}
	was, ok := fields[name].(map[string]any)
	if !ok && fields[name] != nil {
		return fmt.Errorf("invalid metadata.%s of type %T in original object", name, fields[name])
	}
	changed := len(was) != len(texts)
	plain := make(map[string]string, len(texts))
	for key, v := range texts {
		if plain[key], ok = v.(string); !ok {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, key, v)
		}
		changed = changed || was[key] != v
	}
	fields[name] = texts
	if !changed {
		return nil
	}
	if name == "labels" {
		return metavalidation.ValidateLabels(plain, field.NewPath("metadata", "labels")).ToAggregate()
	}
	return validation.ValidateAnnotations(plain, field.NewPath("metadata", "annotation")).ToAggregate()
}
