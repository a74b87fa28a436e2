package match

import (
	"fmt"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Replace replaces the request's object by a new one of version v, which fill decodes and Replace defaults. was is the object before, in
// that version; changed reports whether the two differ.
func (q *Request) Replace(v Version, was runtime.Object, fill func(into runtime.Object) error) (changed bool, err error) {
	s := q.ServedVersion(v)
	if s == nil {
		return q.replaceSub(v, was, fill)
	}
	out := s.New()
	if err := fill(out); err != nil {
		return false, err
	}
	out.GetObjectKind().SetGroupVersionKind(v.Kind)
	if s.Coerce != nil { // drops unknown fields, as for a client's object
		if _, err := s.Coerce(out); err != nil {
			return false, err
		}
	}
	changed = !equality.Semantic.DeepEqual(was, out)
	s.Default(out)
	stored, ok := out.(objects.Object)
	if s.To != nil {
		if stored, err = s.To(out); err != nil {
			return false, err
		}
	} else if !ok {
		return false, fmt.Errorf("%T has no metadata", out)
	}
	q.admission.Resource.Default(stored)
	into := q.admission.Object
	if reflect.TypeOf(into) != reflect.TypeOf(stored) {
		return false, fmt.Errorf("%T cannot become a %T", into, stored)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(stored).Elem())
	q.Changed()
	return changed, nil
}

// replaceSub is Replace for the object of a subresource. A changed Scale is also applied to the object that it scales.
func (q *Request) replaceSub(v Version, was runtime.Object, fill func(into runtime.Object) error) (bool, error) {
	sub := q.sub()
	scale, scaled := sub.(*autoscalingv1.Scale)
	scaled = scaled && q.admission.Resource.Scale != nil
	if sub == nil || any(sub) != any(q.admission.Object) && !scaled {
		return false, fmt.Errorf("the %s of a request for %s/%s cannot be changed", v.Kind.Kind, v.Resource.Resource, q.admission.Subresource)
	}
	out := reflect.New(reflect.TypeOf(sub).Elem())
	obj := out.Interface().(runtime.Object)
	if err := fill(obj); err != nil {
		return false, err
	}
	obj.GetObjectKind().SetGroupVersionKind(v.Kind)
	changed := !equality.Semantic.DeepEqual(was, obj)
	reflect.ValueOf(sub).Elem().Set(out.Elem())
	if scaled {
		q.admission.Resource.Scale.SetSpec(q.admission.Object, scale.Spec.Replicas)
	}
	q.Changed()
	return changed, nil
}
