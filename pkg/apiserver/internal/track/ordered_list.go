package track

import (
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// orderedList is a list whose items are in order if it is large and the library makes paths of its items. Only At returns the items
// in order: it is what the library makes paths with. A range and a comparison have the list's own order.
type orderedList struct {
	value.List
	place place // of the items
	sorts *schema.List
	items *[]int // the indexes of the items in order; empty until the first use, nil for a list with its own order
}

func newOrderedList(l value.List, at place) *orderedList {
	out := &orderedList{List: l, place: at.item()}
	if at.order != allSorted || l.Length() < large {
		return out
	}
	if t := at.itemType(); t != nil && t.ElementRelationship == schema.Associative {
		out.sorts, out.items = t, new([]int)
	}
	return out
}

// At implements value.List.
func (l *orderedList) At(i int) value.Value {
	if l.items != nil {
		if len(*l.items) == 0 {
			*l.items = inOrder(l.List, l.place, l.sorts)
		}
		i = (*l.items)[i]
	}
	return wrap(l.List.At(i), l.place)
}

// AtUsing implements value.List.
func (l *orderedList) AtUsing(_ value.Allocator, i int) value.Value { return l.At(i) }

// Range implements value.List.
func (l *orderedList) Range() value.ListRange { return &orderedRange{list: l, i: -1} }

// RangeUsing implements value.List.
func (l *orderedList) RangeUsing(value.Allocator) value.ListRange { return l.Range() }

// Equals implements value.List.
func (l *orderedList) Equals(other value.List) bool {
	if o, ok := other.(*orderedList); ok {
		other = o.List
	}
	return l.List.Equals(other)
}

// EqualsUsing implements value.List.
func (l *orderedList) EqualsUsing(_ value.Allocator, other value.List) bool { return l.Equals(other) }

type orderedRange struct {
	list *orderedList
	i    int
}

// Next implements value.ListRange.
func (r *orderedRange) Next() bool {
	r.i++
	return r.i < r.list.Length()
}

// Item implements value.ListRange.
func (r *orderedRange) Item() (int, value.Value) {
	return r.i, wrap(r.list.List.At(r.i), r.list.place)
}

// inOrder returns the indexes of a list's items in the order of their paths. Items with equal paths keep their order.
func inOrder(l value.List, item place, t *schema.List) []int {
	type element struct {
		index int
		path  fieldpath.PathElement
	}
	elements := make([]element, l.Length())
	for i := range elements {
		elements[i] = element{i, pathOf(l.At(i), item, t)}
	}
	slices.SortStableFunc(elements, func(a, b element) int { return a.path.Compare(b.path) })
	out := make([]int, len(elements))
	for i, e := range elements {
		out[i] = e.index
	}
	return out
}

// isSorted reports whether a list's items are in the order of their paths.
func isSorted(l value.List, item place, t *schema.List) bool {
	var last fieldpath.PathElement
	for i := range l.Length() {
		path := pathOf(l.At(i), item, t)
		if i > 0 && last.Compare(path) > 0 {
			return false
		}
		last = path
	}
	return true
}

// pathOf returns the path of a list's item as the library forms it. The path of an item without one is empty.
func pathOf(v value.Value, item place, t *schema.List) fieldpath.PathElement {
	switch {
	case len(t.Keys) == 0:
		return fieldpath.PathElement{Value: &v}
	case !v.IsMap():
		return fieldpath.PathElement{}
	}
	fields, types := v.AsMap(), item.fieldTypes()
	key := make(value.FieldList, 0, len(t.Keys))
	for _, name := range t.Keys {
		if k, ok := fields.Get(name); ok {
			key = append(key, value.Field{Name: name, Value: k})
		} else if types != nil {
			if f, ok := types.FindField(name); ok && f.Default != nil {
				key = append(key, value.Field{Name: name, Value: value.NewValueInterface(f.Default)})
			}
		}
	}
	key.Sort()
	return fieldpath.PathElement{Key: &key}
}
