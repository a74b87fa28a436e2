package cache

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Selector selects objects of a table.
type Selector struct {
	Namespace string          // "": all
	Labels    labels.Selector // nil: all
	Fields    fields.Selector // nil: all; names fields in Selectable
	// Selectable reads the fields; nil: those of the resource.
	Selectable map[string]func(objects.Object) string
}

// Everything reports whether the selector selects everything in its namespace.
func (s *Selector) Everything() bool {
	return (s.Labels == nil || s.Labels.Empty()) && (s.Fields == nil || s.Fields.Empty())
}

// matches reports whether labels and fields match. An item whose object can't be decoded does not match.
func (s *Selector) matches(i *Item) bool {
	if s.Labels != nil && !s.Labels.Empty() {
		set, err := i.labelSet()
		if err != nil || !s.Labels.Matches(set) {
			return false
		}
	}
	if s.Fields == nil {
		return true
	}
	for _, r := range s.Fields.Requirements() {
		value, err := s.field(i, r.Field)
		if err != nil || (value == r.Value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

// field returns a field of an item. Name and namespace are in the key: for them nothing is decoded.
func (s *Selector) field(i *Item, name string) (string, error) {
	switch name {
	case nameField:
		return i.Key.Name, nil
	case "metadata.namespace":
		return i.Key.Namespace, nil
	}
	read := s.Selectable[name]
	if read == nil {
		return "", nil
	}
	obj, err := i.Object()
	if err != nil {
		return "", err
	}
	return read(obj), nil
}

// selects reports whether namespace, labels and fields match.
func (s *Selector) selects(i *Item) bool {
	return i != nil && (s.Namespace == "" || i.Key.Namespace == s.Namespace) && s.matches(i)
}

// exact returns the value that the selector requires of field. ok is false when it requires no exact value.
func (s *Selector) exact(field string) (value string, ok bool) {
	if s.Fields == nil {
		return "", false
	}
	return s.Fields.RequiresExactMatch(field)
}
