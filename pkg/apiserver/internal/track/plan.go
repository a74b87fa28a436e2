package track

import (
	"encoding/json"
	"hash/maphash"
	"reflect"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// plan describes how to walk the values of a type at one place of the schema.
type plan struct {
	kind     kind
	fields   []fieldPlan // of a struct
	element  *plan       // of a map or list
	keys     []keyPlan   // of a keyed list
	marshals bool        // leaves that implement json.Marshaler
}

type kind uint8

const (
	leaf    kind = iota // compared as a whole
	object              // a struct whose fields each have managers
	table               // a map whose entries each have managers
	set                 // an unordered list of scalars
	keyed               // a list whose elements are identified by key fields
	unknown             // only the library handles it
	ignored             // does not affect managedFields
)

type fieldPlan struct {
	index     []int // through inlined structs
	omitEmpty bool
	omitZero  bool
	plan      *plan
}

// keyPlan describes a field of a list element's key.
type keyPlan struct {
	index    []int
	fallback uint64 // the hash of the schema's default
	optional bool   // an empty field has the default
	address  string // the JSON name of a key that is an IP address or a UID, which is unique to an object; "": the key is neither
}

// planner builds the plans for the types of one parser.
type planner struct {
	schema *schema.Schema
	done   map[planKey]*plan
}

type planKey struct {
	t    reflect.Type
	name string // of the schema's type; "" for inlined types, whose plans are not shared
	own  schema.ElementRelationship
}

func planOf(t reflect.Type, p typed.ParseableType) *plan {
	pl := planner{schema: p.Schema, done: map[planKey]*plan{}}
	return pl.plan(t, p.TypeRef)
}

var (
	marshaler = reflect.TypeFor[json.Marshaler]()
	converts  = reflect.TypeFor[value.UnstructuredConverter]()
)

func (pl *planner) plan(t reflect.Type, ref schema.TypeRef) *plan {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	key := planKey{t: t}
	if ref.NamedType != nil {
		key.name = *ref.NamedType
		if ref.ElementRelationship != nil {
			key.own = *ref.ElementRelationship
		}
		if p := pl.done[key]; p != nil {
			return p
		}
	}
	p := &plan{}
	if key.name != "" {
		pl.done[key] = p
	}
	atom, ok := pl.schema.Resolve(ref)
	if !ok {
		p.kind = unknown
		return p
	}
	pl.fill(p, t, atom)
	return p
}

func (pl *planner) fill(p *plan, t reflect.Type, atom schema.Atom) {
	pointer := reflect.PointerTo(t)
	p.marshals = pointer.Implements(marshaler) || pointer.Implements(converts)
	granularMap := atom.Map != nil && atom.Map.ElementRelationship != schema.Atomic
	granularList := atom.List != nil && atom.List.ElementRelationship != schema.Atomic
	switch {
	case p.marshals || t.Kind() == reflect.Interface:
		if granularMap || granularList {
			p.kind = unknown
		}
	case t.Kind() == reflect.Struct && granularMap:
		p.kind = object
		pl.structFields(p, t, atom.Map, nil)
	case t.Kind() == reflect.Map && granularMap:
		p.kind = table
		p.element = pl.plan(t.Elem(), atom.Map.ElementType)
	case t.Kind() == reflect.Slice && granularList && t.Elem().Kind() != reflect.Uint8:
		pl.list(p, t, atom.List)
	case granularMap && atom.Scalar == nil || granularList && atom.Scalar == nil:
		p.kind = unknown
	}
}

func (pl *planner) structFields(p *plan, t reflect.Type, m *schema.Map, index []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		at := append(append([]int(nil), index...), i)
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			if f.Type.Kind() == reflect.Struct {
				pl.structFields(p, f.Type, m, at)
			} else {
				p.kind = unknown
			}
			continue
		case name == "":
			name = f.Name
		}
		fp := fieldPlan{index: at, omitEmpty: strings.Contains(options, "omitempty"), omitZero: strings.Contains(options, "omitzero")}
		if sf, ok := m.FindField(name); ok {
			fp.plan = pl.plan(f.Type, sf.Type)
		} else {
			fp.plan = &plan{kind: unknown}
		}
		if name == "managedFields" && t == objectMeta {
			fp.plan = &plan{kind: ignored}
		}
		p.fields = append(p.fields, fp)
	}
}

func (pl *planner) list(p *plan, t reflect.Type, l *schema.List) {
	p.element = pl.plan(t.Elem(), l.ElementType)
	if len(l.Keys) == 0 {
		p.kind = set
		if p.element.kind != leaf || p.element.marshals {
			p.kind = unknown
		}
		return
	}
	p.kind = keyed
	elem := t.Elem()
	atom, ok := pl.schema.Resolve(l.ElementType)
	if !ok || atom.Map == nil || elem.Kind() != reflect.Struct {
		p.kind = unknown
		return
	}
	for _, name := range l.Keys {
		k, ok := keyOf(elem, name)
		if !ok {
			p.kind = unknown
			return
		}
		if sf, ok := atom.Map.FindField(name); ok && sf.Default != nil {
			if k.fallback, k.optional = fallback(sf.Default); !k.optional {
				p.kind = unknown
				return
			}
		}
		if (name == "ip" || name == "uid") && len(l.Keys) == 1 {
			k.address = name
		}
		p.keys = append(p.keys, k)
	}
}

// fallback hashes a default in the same way as scalar hashes the field.
func fallback(v any) (uint64, bool) {
	switch v := v.(type) {
	case string:
		return maphash.String(seed, v), true
	case float64:
		return scalar(reflect.ValueOf(int64(v)))
	}
	return 0, false
}

// keyOf returns the field of a struct with a JSON name, if it can be a key.
func keyOf(t reflect.Type, name string) (keyPlan, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		n, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if n == "" && f.Anonymous && f.Type.Kind() == reflect.Struct {
			if k, ok := keyOf(f.Type, name); ok {
				k.index = append([]int{i}, k.index...)
				return k, true
			}
		}
		if n != name {
			continue
		}
		switch f.Type.Kind() {
		case reflect.String, reflect.Int32, reflect.Int64:
			return keyPlan{index: []int{i}}, true
		}
	}
	return keyPlan{}, false
}
