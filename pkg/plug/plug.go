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
// case in names of fields.
func DecodePaths(raw []byte, into any) error {
	converted, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return Decode(raw, into) // for its message
	}
	strict, err := kjson.UnmarshalStrict(converted, into)
	if err != nil {
		return Decode(raw, into)
	}
	return errors.Join(strict...)
}

// Decode decodes raw (JSON or YAML) into the value that into points at. Unknown and duplicate fields are errors. The errors do not contain
// the decoders' own prefixes.
func Decode(raw []byte, into any) error {
	err := yaml.UnmarshalStrict(raw, into)
	if err == nil {
		return nil
	}
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
