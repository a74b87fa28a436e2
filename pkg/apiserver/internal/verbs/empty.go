package verbs

import (
	"reflect"
	"strings"

	"github.com/minikctl/minikctl/pkg/objects"
)

// emptyFields locates the lists and maps of a struct type that JSON shows when they are empty. The stored form does not
// distinguish an empty one from nil: clear sets them to nil, so that writers and readers get the same response.
type emptyFields struct {
	lists  []int         // the fields that are such lists and maps
	nested []nestedField // the fields whose structs have such fields
}

// nestedField is a field that holds structs: one, a pointer to one, or a list of them.
type nestedField struct {
	field int
	of    *emptyFields
}

// emptyFieldsOf returns the emptyFields of a resource's objects; nil if there are none.
func emptyFieldsOf(r *objects.Resource) *emptyFields {
	return newEmptyFields(reflect.TypeOf(r.New()).Elem())
}

// newEmptyFields returns the emptyFields of a struct type; nil if there are none.
func newEmptyFields(t reflect.Type) *emptyFields {
	known := map[reflect.Type]*emptyFields{}
	e := explore(t, known)
	prune(known)
	if e.idle() {
		return nil
	}
	return e
}

func (e *emptyFields) idle() bool { return len(e.lists)+len(e.nested) == 0 }

// explore collects the fields of t and of all types in it; a type may contain itself.
func explore(t reflect.Type, known map[reflect.Type]*emptyFields) *emptyFields {
	if e := known[t]; e != nil {
		return e
	}
	e := &emptyFields{}
	known[t] = e
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if kind := f.Type.Kind(); (kind == reflect.Slice || kind == reflect.Map) && name != "" && name != "-" && !strings.Contains(options, "omitempty") {
			e.lists = append(e.lists, i)
		}
		if s := elementStruct(f.Type); s != nil {
			e.nested = append(e.nested, nestedField{i, explore(s, known)})
		}
	}
	return e
}

// elementStruct returns the struct type that t is, points to, or lists; nil if it is none. Maps are ignored: no kind has such
// fields in them.
func elementStruct(t reflect.Type) reflect.Type {
	for {
		switch t.Kind() {
		case reflect.Struct:
			return t
		case reflect.Pointer, reflect.Slice:
			t = t.Elem()
		default:
			return nil
		}
	}
}

// prune removes nested fields whose types have no such lists and maps.
func prune(known map[reflect.Type]*emptyFields) {
	useful := map[*emptyFields]bool{}
	for grown := true; grown; {
		grown = false
		for _, e := range known {
			if useful[e] {
				continue
			}
			ok := len(e.lists) > 0
			for _, w := range e.nested {
				ok = ok || useful[w.of]
			}
			useful[e] = ok
			grown = grown || ok
		}
	}
	for _, e := range known {
		var kept []nestedField
		for _, w := range e.nested {
			if useful[w.of] {
				kept = append(kept, w)
			}
		}
		e.nested = kept
	}
}

// clear sets the empty lists and maps of v, a settable struct, to nil. It writes nothing else, so v may share values with
// stored objects.
func (e *emptyFields) clear(v reflect.Value) {
	for _, i := range e.lists {
		if f := v.Field(i); f.Len() == 0 && !f.IsNil() {
			f.SetZero()
		}
	}
	for _, w := range e.nested {
		w.of.clearNested(v.Field(w.field))
	}
}

func (e *emptyFields) clearNested(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		e.clear(v)
	case reflect.Pointer:
		if !v.IsNil() {
			e.clearNested(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			e.clearNested(v.Index(i))
		}
	}
}
