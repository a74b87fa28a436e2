package verbs

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// tellFields lets the authorizers see by which fields opts select. What can't be read is refused later, to those who may
// ask at all.
func (req *Request) tellFields(opts *metav1.ListOptions) {
	if opts == nil || opts.FieldSelector == "" {
		return
	}
	if s, err := fields.ParseSelector(opts.FieldSelector); err == nil {
		req.Fields = s
	}
}
