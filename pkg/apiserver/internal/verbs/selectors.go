package verbs

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Selectors are the selectors of a list or watch, for backends that are not the store.
type Selectors struct {
	Labels labels.Selector
	Fields fields.Selector
}

// ParseSelectors returns the selectors of options. Empty ones match everything.
func ParseSelectors(opts *metav1.ListOptions) (Selectors, error) {
	byLabel, err := labels.Parse(opts.LabelSelector)
	if err != nil {
		return Selectors{}, apierrors.NewBadRequest(err.Error())
	}
	byField, err := fields.ParseSelector(opts.FieldSelector)
	if err != nil {
		return Selectors{}, apierrors.NewBadRequest(err.Error())
	}
	return Selectors{byLabel, byField}, nil
}

// Match reports whether the selectors match an object with this metadata, the only fields of which are its name and namespace.
func (s Selectors) Match(namespace, name string, has map[string]string) bool {
	return s.Labels.Matches(labels.Set(has)) && s.Fields.Matches(fields.Set{"metadata.name": name, "metadata.namespace": namespace})
}
