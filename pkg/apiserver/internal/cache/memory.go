package cache

import (
	"reflect"
	"sync"
	"time"
	"unsafe"
)

// itemBytes is the size of an item without what it points to.
const itemBytes = int(unsafe.Sizeof(Item{}))

// memory returns the bytes that an item keeps in memory, without its encodings, which kept bounds.
func (i *Item) memory() int {
	n := itemBytes + len(i.path) + len(i.value)
	if i.object != nil {
		v := reflect.ValueOf(i.object)
		n += pointees(v.Type())(v)
	}
	return n
}

// A sizer returns the bytes of everything that a value points to. Memory that two pointers share counts twice.
type sizer func(reflect.Value) int

// sizers holds the sizer of each type, nil where values of the type point to nothing.
var sizers sync.Map // of sizer, by reflect.Type

// pointees returns the sizer of a type, nil where its values point to nothing.
func pointees(t reflect.Type) sizer {
	if s, ok := sizers.Load(t); ok {
		return s.(sizer)
	}
	// A type that contains itself, through a pointer, finds this entry while its own sizer is built.
	built := sync.OnceValue(func() sizer { return build(t) })
	sizers.Store(t, sizer(func(v reflect.Value) int {
		if s := built(); s != nil {
			return s(v)
		}
		return 0
	}))
	s := built()
	sizers.Store(t, s)
	return s
}

func build(t reflect.Type) sizer {
	switch t.Kind() {
	case reflect.String:
		return func(v reflect.Value) int { return v.Len() }
	case reflect.Pointer:
		return pointerSizer(t)
	case reflect.Slice:
		return sliceSizer(t)
	case reflect.Map:
		return mapSizer(t)
	case reflect.Struct:
		return structSizer(t)
	case reflect.Interface:
		return func(v reflect.Value) int {
			if v.IsNil() {
				return 0
			}
			v = v.Elem()
			n := int(v.Type().Size())
			if s := pointees(v.Type()); s != nil {
				n += s(v)
			}
			return n
		}
	}
	return nil // numbers, and what API types don't have: arrays of pointers, channels, functions
}

func pointerSizer(t reflect.Type) sizer {
	size, inner := int(t.Elem().Size()), pointees(t.Elem())
	return func(v reflect.Value) int {
		if v.IsNil() {
			return 0
		}
		if inner == nil {
			return size
		}
		return size + inner(v.Elem())
	}
}

func sliceSizer(t reflect.Type) sizer {
	size, inner := int(t.Elem().Size()), pointees(t.Elem())
	return func(v reflect.Value) int {
		n := v.Cap() * size
		if inner == nil {
			return n
		}
		for i := range v.Len() {
			n += inner(v.Index(i))
		}
		return n
	}
}

// mapBytes is the size of an empty map, and mapSlots the number of entries that it makes room for at a time.
const (
	mapBytes = 48
	mapSlots = 8
)

func mapSizer(t reflect.Type) sizer {
	entry, key, elem := int(t.Key().Size()+t.Elem().Size())+1, pointees(t.Key()), pointees(t.Elem())
	return func(v reflect.Value) int {
		if v.IsNil() {
			return 0
		}
		n := mapBytes + (v.Len()+mapSlots-1)/mapSlots*mapSlots*entry
		if key == nil && elem == nil {
			return n
		}
		for it := v.MapRange(); it.Next(); {
			if key != nil {
				n += key(it.Key())
			}
			if elem != nil {
				n += elem(it.Value())
			}
		}
		return n
	}
}

func structSizer(t reflect.Type) sizer {
	if t == reflect.TypeFor[time.Time]() { // which points to a location that all times share
		return nil
	}
	type field struct {
		index int
		sizer sizer
	}
	var fields []field
	for i := range t.NumField() {
		if s := pointees(t.Field(i).Type); s != nil {
			fields = append(fields, field{i, s})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return func(v reflect.Value) int {
		n := 0
		for _, f := range fields {
			n += f.sizer(v.Field(f.index))
		}
		return n
	}
}
