package custom

import (
	"slices"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
)

// outline is the part of a schema that shows whether an object needs neither pruning nor defaults, as nearly all stored
// objects. Otherwise the library does both, which takes ten times as long. An outline may report work where there is
// none, but never the reverse. A nil outline has no fields.
type outline struct {
	fields   map[string]*outline
	others   bool // additional properties are known, with the outline other
	other    *outline
	items    *outline
	preserve bool // unknown fields are preserved
	embedded bool // an embedded object, whose kind and metadata need not be in the schema
	nullable bool

	filled   []string // fields with a default
	defaults bool     // defaults here or below
	embeds   bool     // embedded objects here or below
	lists    bool     // lists of embedded objects here or below
}

func (v *version) makeShape() *outline {
	s, err := v.schema()
	if err != nil {
		return nil
	}
	o := outlineOf(s)
	if o == nil {
		o = &outline{}
	}
	o.embedded = true // the object itself has kind and metadata
	return o
}

// outlineOf returns the outline of a schema, which is a tree, since schemas have no references.
func outlineOf(s *structural.Structural) *outline {
	if s == nil {
		return nil
	}
	o := &outline{preserve: s.XPreserveUnknownFields, embedded: s.XEmbeddedResource, nullable: s.Nullable, embeds: s.XEmbeddedResource}
	o.lists = s.XListType != nil && *s.XListType != "atomic"
	o.items = o.below(outlineOf(s.Items))
	if s.AdditionalProperties != nil {
		o.others, o.other = true, o.below(outlineOf(s.AdditionalProperties.Structural))
		o.defaults = o.defaults || s.AdditionalProperties.Structural != nil && s.AdditionalProperties.Structural.Default.Object != nil
	}
	o.defaults = o.defaults || s.Items != nil && s.Items.Default.Object != nil
	if len(s.Properties) > 0 {
		o.fields = make(map[string]*outline, len(s.Properties))
	}
	for name, p := range s.Properties {
		o.fields[name] = o.below(outlineOf(&p))
		if p.Default.Object != nil {
			o.filled, o.defaults = append(o.filled, name), true
		}
	}
	return o
}

// below merges the flags of a part into o.
func (o *outline) below(part *outline) *outline {
	if part != nil {
		o.defaults, o.embeds, o.lists = o.defaults || part.defaults, o.embeds || part.embeds, o.lists || part.lists
	}
	return part
}

// covers reports whether the outline has all fields of a value and none is null.
func (o *outline) covers(x any) bool {
	switch x := x.(type) {
	case nil:
		return false
	case map[string]any:
		return o.hasAllFields(x)
	case []any:
		var items *outline
		if o != nil {
			items = o.items
		}
		for _, value := range x {
			if !items.covers(value) {
				return false
			}
		}
	}
	return true
}

func (o *outline) hasAllFields(x map[string]any) bool {
	if o == nil {
		return len(x) == 0
	}
	for name, value := range x {
		if o.embedded && ofEveryObject(name) {
			if hasNull(value) {
				return false
			}
			continue
		}
		part, ok := o.fields[name]
		if !ok {
			if o.preserve && !o.others {
				continue
			}
			if part = o.other; !o.others {
				return false
			}
		}
		if !part.covers(value) {
			return false
		}
	}
	return true
}

func ofEveryObject(name string) bool {
	return name == "metadata" || name == "kind" || name == "apiVersion"
}

// hasNull reports whether a value contains a null.
func hasNull(x any) bool {
	switch x := x.(type) {
	case nil:
		return true
	case map[string]any:
		for _, value := range x {
			if hasNull(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(x, hasNull)
	}
	return false
}

// complete reports whether a value has all fields with a default.
func (o *outline) complete(x any) bool {
	if o == nil || !o.defaults {
		return true
	}
	switch x := x.(type) {
	case map[string]any:
		for _, name := range o.filled {
			if value, ok := x[name]; !ok || value == nil && !o.fields[name].nullable {
				return false
			}
		}
		for name, value := range x {
			part, ok := o.fields[name]
			if !ok && o.others {
				if part = o.other; value == nil {
					return false
				}
			}
			if !part.complete(value) {
				return false
			}
		}
	case []any:
		for _, value := range x {
			if value == nil || !o.items.complete(value) {
				return false
			}
		}
	}
	return true
}
