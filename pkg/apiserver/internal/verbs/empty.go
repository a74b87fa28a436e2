package verbs

import (
	"reflect"
	"strings"

	"github.com/minikctl/minikctl/pkg/objects"
)

// emptier takes lists and maps that are empty out of values of one type, where JSON shows them nevertheless. What is
// stored can't tell an empty one from none, and who writes is to be answered as who reads.
type emptier struct {
	lists  []int    // the fields that are such lists and maps
	inside []within // the fields that hold values with such fields
}

// within is a field that holds values of a struct, by pointers or lists, or as it is.
type within struct {
	field int
	of    *emptier
}

// emptierOf returns the emptier of a resource's objects.
func emptierOf(r *objects.Resource) *emptier {
	if r.Custom() { // whose JSON is what is stored
		return nil
	}
	return newEmptier(reflect.TypeOf(r.New()).Elem())
}

// newEmptier returns the emptier of a struct type, nil when there is nothing that it could do.
func newEmptier(t reflect.Type) *emptier {
	known := map[reflect.Type]*emptier{}
	e := explore(t, known)
	prune(known)
	if e.idle() {
		return nil
	}
	return e
}

func (e *emptier) idle() bool { return len(e.lists)+len(e.inside) == 0 }

// explore notes the fields of t and of all types within; a type may be within itself.
func explore(t reflect.Type, known map[reflect.Type]*emptier) *emptier {
	if e := known[t]; e != nil {
		return e
	}
	e := &emptier{}
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
		if s := structIn(f.Type); s != nil {
			e.inside = append(e.inside, within{i, explore(s, known)})
		}
	}
	return e
}

// structIn is the struct type that values of t hold, nil when they hold none. What is in maps does not count: no kind has
// such fields there.
func structIn(t reflect.Type) reflect.Type {
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

// prune drops the ways to types that have no such fields, until there are none.
func prune(known map[reflect.Type]*emptier) {
	useful := map[*emptier]bool{}
	for grown := true; grown; {
		grown = false
		for _, e := range known {
			if useful[e] {
				continue
			}
			ok := len(e.lists) > 0
			for _, w := range e.inside {
				ok = ok || useful[w.of]
			}
			useful[e] = ok
			grown = grown || ok
		}
	}
	for _, e := range known {
		var kept []within
		for _, w := range e.inside {
			if useful[w.of] {
				kept = append(kept, w)
			}
		}
		e.inside = kept
	}
}

// empty takes them out of v, a struct that can be set. Nothing is written where there are none, so v may share what it
// holds with objects that are stored.
func (e *emptier) empty(v reflect.Value) {
	for _, i := range e.lists {
		if f := v.Field(i); f.Len() == 0 && !f.IsNil() {
			f.SetZero()
		}
	}
	for _, w := range e.inside {
		w.of.emptyWithin(v.Field(w.field))
	}
}

func (e *emptier) emptyWithin(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		e.empty(v)
	case reflect.Pointer:
		if !v.IsNil() {
			e.emptyWithin(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			e.emptyWithin(v.Index(i))
		}
	}
}
