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

// checkApply refuses an apply of a configuration or to an object that has too large maps or lists.
func (m *manager) checkApply(live, patch runtime.Object) error {
	for _, side := range []struct {
		name string
		obj  runtime.Object
	}{{"live object", live}, {"configuration", patch}} {
		v, err := m.converter.of(side.obj)
		if err != nil {
			continue // the library returns the error
		}
		content, err := valueOf(side.obj)
		if err != nil {
			return err
		}
		if n := insertions(content, place{schema: v.merge.Schema, ref: v.merge.TypeRef}); n > maxInsertions {
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
				"maps and lists of the %s are too long for a server-side apply: the sum of the squares of their lengths, those of lists times %d, exceeds %d",
				side.name, listFactor, maxInsertions))
		}
	}
	return nil
}

// insertions returns the sum of the squares of the lengths of the large maps and lists whose entries have managers. It stops
// at the bound.
func insertions(v value.Value, at place) int {
	atom, _ := at.schema.Resolve(at.ref)
	n := 0
	switch {
	case v == nil:
	case v.IsMap() && atom.Map != nil && atom.Map.ElementRelationship != schema.Atomic:
		m := v.AsMap()
		if m.Length() >= large {
			n = m.Length() * m.Length()
		}
		m.Iterate(func(key string, part value.Value) bool {
			n += insertions(part, at.field(atom.Map, key))
			return n <= maxInsertions
		})
	case v.IsList() && atom.List != nil && atom.List.ElementRelationship == schema.Associative:
		l := v.AsList()
		if l.Length() >= large && !isSorted(l, at.item(), atom.List) {
			n = listFactor * l.Length() * l.Length()
		}
		for i := 0; i < l.Length() && n <= maxInsertions; i++ {
			n += insertions(l.At(i), at.item())
		}
	}
	return n
}
