package track

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// maxInsertions bounds the entries that an apply moves by its insertions into the library's sorted lists. The library loses the
// order of the maps when it merges them, and the order of the lists has to be kept, so that its work grows with the square of their
// lengths. Lists count more, because more is made of them; lists that are in order count nothing. The bound is a map of 20,000 entries,
// or a list of 8,000.
const (
	maxInsertions = 20_000 * 20_000
	listFactor    = 6
)

// maxWrong bounds the items of large maps and lists that have the wrong type. The library makes an error of each, and one text of all.
const maxWrong = 10_000

// maxSteps bounds the sum of the depths of the fields that have managers. The library adds each to a set by a walk from the root. The bound is
// one field in 7,000 objects, each inside the one before.
const maxSteps = 7_000 * 7_000 / 2

// checkApply refuses an apply of a configuration or to an object that is too deep, or has too large maps or lists, or too many items of the
// wrong type.
func (m *manager) checkApply(live, patch runtime.Object) error {
	for _, side := range []struct {
		name string
		obj  runtime.Object
	}{{"live object", live}, {"configuration", patch}} {
		e, err := m.effortOf(side.obj)
		switch {
		case err != nil:
			continue // the library returns the error
		case e.wrong > maxWrong:
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("maps and lists of the %s have more than %d items of the wrong type", side.name, maxWrong))
		case e.steps > maxSteps:
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
				"the %s is too deep for a server-side apply: the sum of the depths of its fields exceeds %d", side.name, maxSteps))
		case e.insertions > maxInsertions:
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
				"maps and lists of the %s are too long for a server-side apply: the sum of the squares of their lengths, those of lists times %d, exceeds %d",
				side.name, listFactor, maxInsertions))
		}
	}
	return nil
}

// effortOf returns the effort of an object.
func (m *manager) effortOf(obj runtime.Object) (effort, error) {
	var e effort
	v, err := m.converter.of(obj)
	if err != nil {
		return e, err
	}
	content, err := valueOf(obj)
	if err != nil {
		return e, err
	}
	e.add(content, place{schema: v.merge.Schema, ref: v.merge.TypeRef}, 0, false)
	return e, nil
}

// effort is what a value costs the library.
type effort struct {
	insertions int // the sum of the squares of the lengths of the large maps and lists whose entries have managers
	steps      int // the sum of the depths of the fields that have managers
	wrong      int // the items of large maps and lists that have the wrong type
}

// isOver reports whether the effort is beyond a bound, so that the rest does not count.
func (e *effort) isOver() bool {
	return e.insertions > maxInsertions || e.steps > maxSteps || e.wrong > maxWrong
}

// add adds the effort of a value at a depth. Nothing in an atomic one has managers.
func (e *effort) add(v value.Value, at place, depth int, atomic bool) {
	atom, _ := at.schema.Resolve(at.ref)
	switch {
	case v == nil:
	case v.IsMap() && atom.Map != nil:
		atomic = atomic || atom.Map.ElementRelationship == schema.Atomic
		m := v.AsMap()
		if !atomic {
			e.steps += m.Length() * (depth + 1)
		}
		if m.Length() >= large && !atomic {
			e.insertions += m.Length() * m.Length()
		}
		m.Iterate(func(key string, part value.Value) bool {
			field := at.field(atom.Map, key)
			if m.Length() >= large {
				e.check(part, field)
			}
			e.add(part, field, depth+1, atomic)
			return !e.isOver()
		})
	case v.IsList() && atom.List != nil:
		atomic = atomic || atom.List.ElementRelationship != schema.Associative
		l, item := v.AsList(), at.item()
		if !atomic {
			e.steps += l.Length() * (depth + 1)
		}
		if l.Length() >= large && !atomic && !isSorted(l, item, atom.List) {
			e.insertions += listFactor * l.Length() * l.Length()
		}
		for i := 0; i < l.Length() && !e.isOver(); i++ {
			part := l.At(i)
			if l.Length() >= large {
				e.check(part, item)
			}
			e.add(part, item, depth+1, atomic)
		}
	}
}

// check counts the item of a large map or list if it has the wrong type.
func (e *effort) check(item value.Value, at place) {
	if atom, known := at.schema.Resolve(at.ref); known && !matches(item, atom) {
		e.wrong++
	}
}

// matches reports whether a value has a type that the schema allows.
func matches(v value.Value, atom schema.Atom) bool {
	switch {
	case v == nil, v.IsNull():
		return true
	case v.IsMap():
		return atom.Map != nil
	case v.IsList():
		return atom.List != nil
	case atom.Scalar == nil:
		return false
	}
	switch *atom.Scalar {
	case schema.Numeric:
		return v.IsInt() || v.IsFloat()
	case schema.String:
		return v.IsString()
	case schema.Boolean:
		return v.IsBool()
	}
	return true
}
