package cache

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Selector says which objects of a table are meant.
type Selector struct {
	Namespace string          // "": all
	Labels    labels.Selector // nil: all
	Fields    fields.Selector // nil: all; of fields in Selectable
	// Selectable reads the fields; nil: those of the resource.
	Selectable map[string]func(objects.Object) string
}

// Everything reports whether the selector takes all of its namespace.
func (s *Selector) Everything() bool {
	return (s.Labels == nil || s.Labels.Empty()) && (s.Fields == nil || s.Fields.Empty())
}

// matches asks about labels and fields. An item whose object cannot be read does not match.
func (s *Selector) matches(i *Item) bool {
	if s.Everything() {
		return true
	}
	obj, err := i.Object()
	if err != nil {
		return false
	}
	return s.selects(obj)
}

func (s *Selector) selects(obj objects.Object) bool {
	if s.Labels != nil && !s.Labels.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	if s.Fields == nil {
		return true
	}
	for _, r := range s.Fields.Requirements() {
		value := ""
		if f := s.Selectable[r.Field]; f != nil {
			value = f(obj)
		}
		if (value == r.Value) == (r.Operator == selection.NotEquals) {
			return false
		}
	}
	return true
}

// takes asks about namespace, labels and fields.
func (s *Selector) takes(i *Item) bool {
	return i != nil && (s.Namespace == "" || i.Key.Namespace == s.Namespace) && s.matches(i)
}

// exact returns the value that field must have, when the selector says so.
func (s *Selector) exact(field string) (string, bool) {
	if s.Fields == nil {
		return "", false
	}
	return s.Fields.RequiresExactMatch(field)
}
