package track

import (
	"reflect"
	"slices"
	"time"

	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// The library keeps sets of paths as sorted lists, into which it inserts the keys of a map in random order. Its work grows with
// the square of their number, to seconds for the maps that fit into one request. Large maps are therefore passed to it with
// sorted keys, so that each insertion is at the end.

// largeMap is the lowest number of entries of a map that is sorted.
const largeMap = 1024

// inOrder calls typed.ParseableType.FromStructured with a value whose large maps have sorted keys.
func inOrder(t typed.ParseableType, obj any, opts []typed.ValidationOptions) (*typed.TypedValue, error) {
	v, err := value.NewValueReflect(obj)
	if err != nil {
		return nil, err
	}
	return typed.AsTyped(ordered{v}, t.Schema, t.TypeRef, opts...)
}

// inOrderPlain does the same for the content of an unstructured object.
func inOrderPlain(t typed.ParseableType, content any, opts []typed.ValidationOptions) (*typed.TypedValue, error) {
	return typed.AsTyped(ordered{value.NewValueInterface(content)}, t.Schema, t.TypeRef, opts...)
}

var timeType = reflect.TypeFor[time.Time]()

// hasLargeMap reports whether v contains a large map. It skips times: they point to time.Local, which another goroutine may be
// initializing.
func hasLargeMap(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && hasLargeMap(v.Elem())
	case reflect.Struct:
		if v.Type() == timeType {
			return false
		}
		for i := range v.NumField() {
			if hasLargeMap(v.Field(i)) {
				return true
			}
		}
	case reflect.Slice:
		if kind := v.Type().Elem().Kind(); kind == reflect.Uint8 || kind == reflect.String {
			return false
		}
		for i := range v.Len() {
			if hasLargeMap(v.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		if v.Len() >= largeMap {
			return true
		}
		if v.Type().Elem().Kind() == reflect.String {
			return false
		}
		for entries := v.MapRange(); entries.Next(); {
			if hasLargeMap(entries.Value()) {
				return true
			}
		}
	}
	return false
}

// ordered is a value whose large maps are iterated in the order of their keys.
type ordered struct{ value.Value }

// wrap returns nil for nil.
func wrap(v value.Value) value.Value {
	if v == nil {
		return nil
	}
	return ordered{v}
}

// AsMap implements value.Value.
func (o ordered) AsMap() value.Map { return orderedMap{o.Value.AsMap()} }

// AsMapUsing implements value.Value. It does not use the pool, because the wrapper could not return the value to it.
func (o ordered) AsMapUsing(value.Allocator) value.Map { return o.AsMap() }

// AsList implements value.Value.
func (o ordered) AsList() value.List { return orderedList{o.Value.AsList()} }

// AsListUsing implements value.Value.
func (o ordered) AsListUsing(value.Allocator) value.List { return o.AsList() }

type orderedMap struct{ value.Map }

// Get implements value.Map.
func (m orderedMap) Get(key string) (value.Value, bool) {
	v, ok := m.Map.Get(key)
	return wrap(v), ok
}

// GetUsing implements value.Map.
func (m orderedMap) GetUsing(_ value.Allocator, key string) (value.Value, bool) { return m.Get(key) }

// Iterate implements value.Map.
func (m orderedMap) Iterate(f func(key string, v value.Value) bool) bool {
	if m.Length() < largeMap {
		return m.Map.Iterate(func(key string, v value.Value) bool { return f(key, wrap(v)) })
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
	if m.Length() >= largeMap || other != nil && other.Length() >= largeMap {
		order = value.LexicalKeyOrder
	}
	return m.Map.Zip(other, order, func(key string, a, b value.Value) bool { return f(key, wrap(a), wrap(b)) })
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

type orderedList struct{ value.List }

// At implements value.List.
func (l orderedList) At(i int) value.Value { return wrap(l.List.At(i)) }

// AtUsing implements value.List.
func (l orderedList) AtUsing(_ value.Allocator, i int) value.Value { return l.At(i) }

// Range implements value.List.
func (l orderedList) Range() value.ListRange { return &orderedRange{list: l, i: -1} }

// RangeUsing implements value.List.
func (l orderedList) RangeUsing(value.Allocator) value.ListRange { return l.Range() }

// Equals implements value.List.
func (l orderedList) Equals(other value.List) bool {
	if o, ok := other.(orderedList); ok {
		other = o.List
	}
	return l.List.Equals(other)
}

// EqualsUsing implements value.List.
func (l orderedList) EqualsUsing(_ value.Allocator, other value.List) bool { return l.Equals(other) }

type orderedRange struct {
	list orderedList
	i    int
}

// Next implements value.ListRange.
func (r *orderedRange) Next() bool {
	r.i++
	return r.i < r.list.Length()
}

// Item implements value.ListRange.
func (r *orderedRange) Item() (int, value.Value) { return r.i, r.list.At(r.i) }
