package track

import (
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// The library keeps sets of paths as sorted lists, into which it inserts the keys of a map in random order, and the items of a
// list in the order of the list. Its work grows with the square of their number, to minutes for what fits into one request. Large
// maps and lists are therefore passed to it in the order of the paths, so that each insertion is at the end.

// large is the lowest number of entries of a map or list that is sorted.
const large = 1024

// order says which large values of an object are sorted.
type order int

const (
	unordered  order = iota
	mapsSorted       // for an apply, whose result has the order of the lists
	allSorted        // for an update
)

// typed returns an object with its merge schema, whose large maps or lists are in order.
func (o order) typed(t typed.ParseableType, obj runtime.Object, opts []typed.ValidationOptions) (*typed.TypedValue, error) {
	v, err := valueOf(obj)
	if err != nil {
		return nil, err
	}
	return typed.AsTyped(ordered{v, place{t.Schema, t.TypeRef, o}}, t.Schema, t.TypeRef, opts...)
}

// valueOf returns the library's view of an object.
func valueOf(obj runtime.Object) (value.Value, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return value.NewValueInterface(u.Object), nil
	}
	return value.NewValueReflect(obj)
}

// isLarge reports whether an object contains a large map or list, or a deep value.
func isLarge(obj runtime.Object) bool { return hasLarge(reflect.ValueOf(obj), 0) }

// deep is the least number of maps, lists and structs, each inside the one before, of a deep value.
const deep = 1000

var timeType = reflect.TypeFor[time.Time]()

// hasLarge reports whether v, at a depth, contains a large map or list, or a deep value. It skips times: they point to time.Local, which
// another goroutine may be initializing.
func hasLarge(v reflect.Value, depth int) bool {
	if depth >= deep {
		return true
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && hasLarge(v.Elem(), depth)
	case reflect.Struct:
		if v.Type() == timeType {
			return false
		}
		for i := range v.NumField() {
			if hasLarge(v.Field(i), depth+1) {
				return true
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return false
		}
		if v.Len() >= large {
			return true
		}
		if v.Type().Elem().Kind() == reflect.String {
			return false
		}
		for i := range v.Len() {
			if hasLarge(v.Index(i), depth+1) {
				return true
			}
		}
	case reflect.Map:
		if v.Len() >= large {
			return true
		}
		if v.Type().Elem().Kind() == reflect.String {
			return false
		}
		for entries := v.MapRange(); entries.Next(); {
			if hasLarge(entries.Value(), depth+1) {
				return true
			}
		}
	}
	return false
}

// place is the type of a value in a merge schema.
type place struct {
	schema *schema.Schema
	ref    schema.TypeRef
	order  order
}

func (p place) at(ref schema.TypeRef) place { return place{p.schema, ref, p.order} }

// fieldTypes returns the types of the fields of a map; nil if the schema has no map here.
func (p place) fieldTypes() *schema.Map {
	atom, _ := p.schema.Resolve(p.ref)
	return atom.Map
}

// field returns the place of a field of a map with the given types.
func (p place) field(types *schema.Map, name string) place {
	if types == nil {
		return p.at(schema.TypeRef{})
	}
	if f, ok := types.FindField(name); ok {
		return p.at(f.Type)
	}
	return p.at(types.ElementType)
}

// itemType returns the type of a list; nil if the schema has no list here.
func (p place) itemType() *schema.List {
	atom, _ := p.schema.Resolve(p.ref)
	return atom.List
}

// item returns the place of the items of a list.
func (p place) item() place {
	if l := p.itemType(); l != nil {
		return p.at(l.ElementType)
	}
	return p.at(schema.TypeRef{})
}

// ordered is a value whose large maps are iterated in the order of their keys, and its large lists in that of their items.
type ordered struct {
	value.Value
	place place
}

// wrap returns nil for nil.
func wrap(v value.Value, at place) value.Value {
	if v == nil {
		return nil
	}
	return ordered{v, at}
}

// AsMap implements value.Value.
func (o ordered) AsMap() value.Map { return orderedMap{o.Value.AsMap(), o.place, o.place.fieldTypes()} }

// AsMapUsing implements value.Value. It does not use the pool, because the wrapper could not return the value to it.
func (o ordered) AsMapUsing(value.Allocator) value.Map { return o.AsMap() }

// AsList implements value.Value.
func (o ordered) AsList() value.List { return newOrderedList(o.Value.AsList(), o.place) }

// AsListUsing implements value.Value.
func (o ordered) AsListUsing(value.Allocator) value.List { return o.AsList() }

type orderedMap struct {
	value.Map
	place place
	types *schema.Map
}

func (m orderedMap) wrap(key string, v value.Value) value.Value {
	return wrap(v, m.place.field(m.types, key))
}

// Get implements value.Map.
func (m orderedMap) Get(key string) (value.Value, bool) {
	v, ok := m.Map.Get(key)
	return m.wrap(key, v), ok
}

// GetUsing implements value.Map.
func (m orderedMap) GetUsing(_ value.Allocator, key string) (value.Value, bool) { return m.Get(key) }

// Iterate implements value.Map.
func (m orderedMap) Iterate(f func(key string, v value.Value) bool) bool {
	if m.Length() < large {
		return m.Map.Iterate(func(key string, v value.Value) bool { return f(key, m.wrap(key, v)) })
	}
	keys := make([]string, 0, m.Length())
	m.Map.Iterate(func(key string, _ value.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.Sort(keys)
	for _, key := range keys {
		if v, ok := m.Get(key); ok && !f(key, v) {
			return false
		}
	}
	return true
}

// IterateUsing implements value.Map.
func (m orderedMap) IterateUsing(_ value.Allocator, f func(key string, v value.Value) bool) bool {
	return m.Iterate(f)
}

// Zip implements value.Map.
func (m orderedMap) Zip(other value.Map, order value.MapTraverseOrder, f func(key string, a, b value.Value) bool) bool {
	other = plainMap(other)
	if m.Length() >= large || other != nil && other.Length() >= large {
		order = value.LexicalKeyOrder
	}
	return m.Map.Zip(other, order, func(key string, a, b value.Value) bool { return f(key, m.wrap(key, a), m.wrap(key, b)) })
}

// ZipUsing implements value.Map.
func (m orderedMap) ZipUsing(_ value.Allocator, other value.Map, order value.MapTraverseOrder, f func(key string, a, b value.Value) bool) bool {
	return m.Zip(other, order, f)
}

// Equals implements value.Map.
func (m orderedMap) Equals(other value.Map) bool { return m.Map.Equals(plainMap(other)) }

// EqualsUsing implements value.Map.
func (m orderedMap) EqualsUsing(_ value.Allocator, other value.Map) bool { return m.Equals(other) }

func plainMap(m value.Map) value.Map {
	if o, ok := m.(orderedMap); ok {
		return o.Map
	}
	return m
}
