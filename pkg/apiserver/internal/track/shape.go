package track

import (
	"encoding/json"
	"hash/maphash"
	"math/bits"
	"reflect"
	"strings"
)

// The shape of a write determines its managedFields: the fields of the old and the new object, the keys of their list elements,
// and which leaves differ. The values of leaves are no part of it, nor are fields that are equal in both objects. A plan,
// which is built once for each type from its Go type and its merge schema, walks both objects in parallel and hashes the
// shape.

// seed is the hash seed of all shapes.
var seed = maphash.MakeSeed()

// walk computes the shape of one write. lost means that the objects contain a value that only the library handles.
type walk struct {
	lost         bool
	placeholders []placeholder
	changes      int // the differences so far
}

// unchanged is the shape of values that are equal in both objects, and so change no managedFields.
const unchanged = 0x2545f4914f6cdd1d

// placeholder replaces the key of a list element, or the element of a set, that is an IP address or a UID, such as that of a pod. A shape
// contains the placeholder's number instead of the address, so that objects that differ only in their addresses have the same shape. name is
// "" for elements of a set.
type placeholder struct{ name, value string }

// number returns the number of the placeholder for a value; ok is false if the value does not look like an IP address or a UID.
func (w *walk) number(name, value string) (n uint64, ok bool) {
	if value == "" || strings.Trim(value, "0123456789abcdef.:-") != "" {
		return 0, false
	}
	for i, h := range w.placeholders {
		if h.value == value && h.name == name {
			return uint64(i), true
		}
	}
	w.placeholders = append(w.placeholders, placeholder{name, value})
	return uint64(len(w.placeholders) - 1), true
}

const multiplier = 0x9e3779b97f4a7c15

func mix(h, x uint64) uint64 {
	hi, lo := bits.Mul64(h^x^0xa0761d6478bd642f, multiplier)
	return hi ^ lo ^ h
}

// The presence of a value.
const (
	absent = iota
	null
	present
)

// side is the old or the new value at one place.
type side struct {
	v  reflect.Value
	is uint64
}

// deref follows pointers. A nil pointer is null.
func deref(v reflect.Value, is uint64) side {
	for is == present && v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return side{v, null}
		}
		v = v.Elem()
	}
	return side{v, is}
}

func nilable(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.Interface:
		return v.IsNil()
	}
	return false
}

func (w *walk) visit(p *plan, old, now side) uint64 {
	old, now = deref(old.v, old.is), deref(now.v, now.is)
	if old.is == present && nilable(old.v) {
		old.is = null
	}
	if now.is == present && nilable(now.v) {
		now.is = null
	}
	before := w.changes
	if old.is != now.is {
		w.changes++
	}
	h := mix(old.is<<2|now.is, uint64(p.kind))
	if old.is == present || now.is == present {
		h = mix(h, w.inside(p, old, now))
	}
	if w.changes == before {
		return unchanged
	}
	return h
}

// inside hashes the parts of a value that is present on at least one side.
func (w *walk) inside(p *plan, old, now side) uint64 {
	var h uint64
	switch p.kind {
	case leaf:
		if old.is == present && now.is == present && !p.same(old.v, now.v) {
			w.changes++
			return 1
		}
	case object:
		for i := range p.fields {
			h = mix(h, w.field(&p.fields[i], old, now))
		}
	case table:
		return w.table(p, old, now)
	case set:
		alone := few(old, now)
		was, is := w.set(old, alone), w.set(now, alone)
		if was != is {
			w.changes++
		}
		return mix(was, 1) + mix(is, 2)
	case keyed:
		return w.keyed(p, old, now)
	case unknown:
		w.lost = true
	}
	return h
}

func (w *walk) field(f *fieldPlan, old, now side) uint64 {
	if f.plan.kind == ignored {
		return 0
	}
	return w.visit(f.plan, f.of(old), f.of(now))
}

// of returns a field of a struct.
func (f *fieldPlan) of(s side) side {
	if s.is != present {
		return side{is: absent}
	}
	v := s.v
	for _, i := range f.index {
		v = v.Field(i)
	}
	if f.omitEmpty && empty(v) || f.omitZero && zero(v) {
		return side{is: absent}
	}
	return side{v, present}
}

// empty reports whether encoding/json omits v with omitempty.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.String, reflect.Array:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// zero reports whether encoding/json omits v with omitzero.
func zero(v reflect.Value) bool {
	if z, ok := v.Interface().(interface{ IsZero() bool }); ok {
		if v.Kind() == reflect.Pointer && v.IsNil() {
			return true
		}
		return z.IsZero()
	}
	if v.CanAddr() {
		if z, ok := v.Addr().Interface().(interface{ IsZero() bool }); ok {
			return z.IsZero()
		}
	}
	return v.IsZero()
}

// same compares leaves by their JSON, unless their Go values are equal.
func (p *plan) same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		if !p.marshals {
			return a.String() == b.String()
		}
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Int, reflect.Int32, reflect.Int64:
		if !p.marshals {
			return a.Int() == b.Int()
		}
	}
	if reflect.DeepEqual(a.Interface(), b.Interface()) {
		return true
	}
	x, errX := json.Marshal(addressed(a))
	y, errY := json.Marshal(addressed(b))
	return errX == nil && errY == nil && string(x) == string(y)
}

// addressed returns an addressable value, which has the methods of its pointer type too.
func addressed(v reflect.Value) any {
	if v.CanAddr() {
		return v.Addr().Interface()
	}
	return v.Interface()
}

func (w *walk) table(p *plan, old, now side) uint64 {
	var sum uint64
	if now.is == present {
		for it := now.v.MapRange(); it.Next(); {
			was := side{is: absent}
			if old.is == present {
				if v := old.v.MapIndex(it.Key()); v.IsValid() {
					was = side{v, present}
				}
			}
			if h := w.visit(p.element, was, side{it.Value(), present}); h != unchanged {
				sum += mix(maphash.String(seed, it.Key().String()), h)
			}
		}
	}
	if old.is == present {
		for it := old.v.MapRange(); it.Next(); {
			if now.is == present && now.v.MapIndex(it.Key()).IsValid() {
				continue
			}
			sum += mix(maphash.String(seed, it.Key().String()), w.visit(p.element, side{it.Value(), present}, side{is: absent}))
		}
	}
	return sum
}

// few reports whether a list has at most one element on either side. Only then may an address be left out of the hash: the order of several
// elements depends on their addresses.
func few(old, now side) bool {
	return (old.is != present || old.v.Len() <= 1) && (now.is != present || now.v.Len() <= 1)
}

// set hashes the elements of a set. With alone, UIDs are replaced by placeholders.
func (w *walk) set(s side, alone bool) uint64 {
	if s.is != present {
		return 0
	}
	if s.v.Len() > fewElements {
		w.lost = true
		return 0
	}
	var sum uint64
	seen := make([]uint64, 0, 8)
	for i := range s.v.Len() {
		h, ok := w.member(s.v.Index(i), alone)
		for _, other := range seen {
			ok = ok && other != h
		}
		w.lost = w.lost || !ok
		seen = append(seen, h)
		sum += mix(h, multiplier)
	}
	return sum + uint64(s.v.Len()) // so that an empty list differs from nil
}

// uidLength is the length of a UID.
const uidLength = 36

func (w *walk) member(v reflect.Value, alone bool) (uint64, bool) {
	if alone && v.Kind() == reflect.String && v.Len() == uidLength {
		if n, ok := w.number("", v.String()); ok {
			return mix(multiplier, ^n), true
		}
	}
	return scalar(v)
}

func scalar(v reflect.Value) (uint64, bool) {
	switch v.Kind() {
	case reflect.String:
		return maphash.String(seed, v.String()), true
	case reflect.Int, reflect.Int32, reflect.Int64:
		return mix(uint64(v.Int()), multiplier), true
	}
	return 0, false
}

// fewElements bounds the lists that are compared by linear search. Longer lists are left to the library.
const fewElements = 32

func (w *walk) keyed(p *plan, old, now side) uint64 {
	alone := few(old, now)
	was := w.keysOf(p, old, alone)
	is := w.keysOf(p, now, alone)
	if w.lost {
		return 0
	}
	var sum uint64
	for i, k := range is {
		before := side{is: absent}
		for j, o := range was {
			if o == k {
				before = side{old.v.Index(j), present}
			}
		}
		if h := w.visit(p.element, before, side{now.v.Index(i), present}); h != unchanged {
			sum += mix(k, h)
		}
	}
	for j, o := range was {
		gone := true
		for _, k := range is {
			gone = gone && k != o
		}
		if gone {
			sum += mix(o, w.visit(p.element, side{old.v.Index(j), present}, side{is: absent}))
		}
	}
	return sum
}

// keysOf returns the hashes of a list's keys. A list with duplicate keys is left to the library.
func (w *walk) keysOf(p *plan, s side, alone bool) []uint64 {
	if s.is != present {
		return nil
	}
	if s.v.Len() > fewElements {
		w.lost = true
		return nil
	}
	out := make([]uint64, 0, 8)
	for i := range s.v.Len() {
		h := w.keyOf(p, s.v.Index(i), alone)
		for _, other := range out {
			w.lost = w.lost || other == h
		}
		out = append(out, h)
	}
	return out
}

// keyOf hashes an element's key. With alone, an address is replaced by a placeholder.
func (w *walk) keyOf(p *plan, elem reflect.Value, alone bool) uint64 {
	h := uint64(multiplier)
	for _, k := range p.keys {
		v := elem.FieldByIndex(k.index)
		if k.address != "" && alone {
			if n, ok := w.number(k.address, v.String()); ok {
				h = mix(h, ^n)
				continue
			}
		}
		if k.optional && v.IsZero() {
			h = mix(h, k.fallback)
			continue
		}
		part, ok := scalar(v)
		w.lost = w.lost || !ok
		h = mix(h, part)
	}
	return h
}
