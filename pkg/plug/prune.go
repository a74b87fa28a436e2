package plug

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// pruner takes the values out of a document that cannot be decoded into a type, and collects their errors.
type pruner struct {
	into   reflect.Type
	errors []error
}

// prune returns a value of a document without the values that cannot be decoded, and false if it is one itself. within returns the document with only
// this value, or another one in its place.
func (p *pruner) prune(in any, within func(any) any) (any, bool) {
	switch in := in.(type) {
	case map[string]any:
		if !p.decodes(within(map[string]any{})) {
			return nil, false
		}
		out := map[string]any{}
		for _, key := range slices.Sorted(maps.Keys(in)) {
			if kept, ok := p.prune(in[key], func(of any) any { return within(map[string]any{key: of}) }); ok {
				out[key] = kept
			}
		}
		return out, true
	case []any:
		if !p.decodes(within([]any{})) {
			return nil, false
		}
		out := []any{}
		for i, item := range in {
			if kept, ok := p.prune(item, func(of any) any { return within(append(make([]any, i), of)) }); ok {
				out = append(out, kept)
			} else {
				out = append(out, nil) // the others keep their indices
			}
		}
		return out, true
	}
	document := within(in)
	return in, p.decodes(document) && exact(document, p.into)
}

// exact reports whether a document can be decoded as it is. Decode also reads the YAML n, a boolean, as a string where one is expected.
func exact(document any, into reflect.Type) bool {
	raw, err := json.Marshal(document)
	return err == nil && kjson.UnmarshalCaseSensitivePreserveInts(raw, reflect.New(into).Interface()) == nil
}

// decodes reports whether a document can be decoded, apart from unknown fields, and otherwise notes the error.
func (p *pruner) decodes(document any) bool {
	raw, err := json.Marshal(document)
	if err == nil {
		into := reflect.New(p.into).Interface()
		if err = yaml.Unmarshal(raw, into); err != nil {
			err = explain(raw, into, err)
		}
	}
	if err != nil {
		p.errors = append(p.errors, err)
	}
	return err == nil
}
