// Package plug selects plugins by the names and arguments of a config file: stores, runtimes, scheduler
// plugins. Arguments are decoded strictly over the plugin's defaults. Errors name the field and the choices.
package plug

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Set maps names to factories. What is the kind of plugin for error messages: "scheduler plugin".
type Set[F any] struct {
	What  string
	Parts map[string]F
}

// Find returns the factory of name, or an error that lists the known names.
func (s Set[F]) Find(name string) (F, error) {
	f, ok := s.Parts[name]
	if !ok {
		return f, fmt.Errorf("%s %q is not one of [%s]", s.What, name, strings.Join(s.Names(), " "))
	}
	return f, nil
}

// Names returns the sorted names.
func (s Set[F]) Names() []string { return slices.Sorted(maps.Keys(s.Parts)) }

// Args decodes raw (JSON or YAML, may be empty) over defaults. Unknown and repeated fields are errors. defaults is a
// function because decoding a list over a shared value would change that value.
func Args[A any](raw []byte, defaults func() A) (A, error) {
	args := defaults()
	if len(raw) == 0 {
		return args, nil
	}
	if err := Decode(raw, &args); err != nil {
		return args, fmt.Errorf("args: %w", err)
	}
	return args, nil
}

// DecodePaths is Decode with the paths of unknown and repeated fields: unknown field "a[0].b". Unlike Decode it tells upper from lower
// case in names of fields, and returns all errors: repeated fields, values of wrong types and unknown fields.
func DecodePaths(raw []byte, into any) error {
	var errs []error
	converted, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		errs = append(errs, explain(raw, into, err))
		if converted, err = yaml.YAMLToJSON(raw); err != nil {
			return errors.Join(errs...)
		}
	}
	strict, err := kjson.UnmarshalStrict(converted, into)
	if err != nil {
		lenient := Decode(raw, into) // which reads n as a string where one is expected
		if lenient == nil {
			return nil
		}
		wrong, unknown := decodeWrong(converted, into)
		if len(errs)+len(wrong)+len(unknown) == 0 {
			wrong = []error{lenient}
		}
		errs, strict = append(errs, wrong...), unknown
	}
	return errors.Join(append(errs, strict...)...)
}

// decodeWrong returns the errors of the values of a document that cannot be decoded, and those of its unknown fields.
func decodeWrong(converted []byte, into any) (wrong, unknown []error) {
	var document any
	if err := json.Unmarshal(converted, &document); err != nil {
		return nil, nil
	}
	p := pruner{into: reflect.TypeOf(into).Elem()}
	kept, _ := p.prune(document, func(of any) any { return of })
	rest, err := json.Marshal(kept)
	if err != nil {
		return p.errors, nil
	}
	unknown, _ = kjson.UnmarshalStrict(rest, reflect.New(p.into).Interface()) // what cannot be decoded is among the wrong ones
	return p.errors, unknown
}

// Decode decodes raw (JSON or YAML) into the value that into points at. Unknown and duplicate fields are errors. The errors do not contain
// the decoders' own prefixes.
func Decode(raw []byte, into any) error {
	err := yaml.UnmarshalStrict(raw, into)
	if err == nil {
		return nil
	}
	return explain(raw, into, err)
}

// explain returns the error of decoding raw for users.
func explain(raw []byte, into any, err error) error {
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) && wrong.Field != "" {
		return fmt.Errorf("%s: a %s is not %s", wrong.Field, wrong.Value, wanted(wrong.Type))
	}
	if wrong := valueError(raw, into, err); wrong != nil {
		return wrong
	}
	msg := err.Error()
	for _, decoder := range []string{"error unmarshaling JSON: ", "error converting YAML to JSON: ", "while decoding JSON: ", "json: "} {
		msg = strings.TrimPrefix(msg, decoder)
	}
	return errors.New(msg)
}

// wanted returns the name of a type in terms of YAML.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a mapping"
	case reflect.Pointer:
		return wanted(t.Elem())
	default:
		return "a number in its range"
	}
}
