package custom

import (
	"fmt"
	"math"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
)

// scaleOf returns where a version keeps its scale; nil: it has none.
func (v *version) scaleOf() *apiextensionsv1.CustomResourceSubresourceScale {
	if v.spec.Subresources == nil {
		return nil
	}
	return v.spec.Subresources.Scale
}

// names returns the fields on the way to a path like ".spec.replicas".
func names(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// scale returns the scale subresource; nil: there is none. It is found by the paths of the stored version, or of the first
// that is served and has one.
func (k *kind) scale() *objects.ScaleOf {
	s := k.stored.scaleOf()
	for i := 0; s == nil && i < len(k.crd.Spec.Versions); i++ {
		if v := k.versions[k.crd.Spec.Versions[i].Name]; v.spec.Served {
			s = v.scaleOf()
		}
	}
	if s == nil {
		return nil
	}
	number := func(obj objects.Object, path string) int32 {
		n, _, _ := unstructured.NestedInt64(content(obj), names(path)...) // the rules say what is wrong with it
		return int32(n)
	}
	return &objects.ScaleOf{
		Spec:   func(obj objects.Object) int32 { return number(obj, s.SpecReplicasPath) },
		Status: func(obj objects.Object) int32 { return number(obj, s.StatusReplicasPath) },
		SetSpec: func(obj objects.Object, replicas int32) {
			_ = unstructured.SetNestedField(content(obj), int64(replicas), names(s.SpecReplicasPath)...)
		},
		Selector: func(obj objects.Object) string {
			if s.LabelSelectorPath == nil || *s.LabelSelectorPath == "" {
				return ""
			}
			selector, _, _ := unstructured.NestedString(content(obj), names(*s.LabelSelectorPath)...)
			return selector
		},
		Path: func(version string) []string {
			v := k.versions[version]
			if v == nil || v.scaleOf() == nil {
				return nil
			}
			return names(v.scaleOf().SpecReplicasPath)
		},
	}
}

func (v *version) validateScaleSpec(obj map[string]any) field.ErrorList {
	s := v.scaleOf()
	if s == nil {
		return nil
	}
	return validateReplicas(obj, s.SpecReplicasPath)
}

func (v *version) validateScaleStatus(obj map[string]any) field.ErrorList {
	s := v.scaleOf()
	if s == nil {
		return nil
	}
	errs := validateReplicas(obj, s.StatusReplicasPath)
	if s.LabelSelectorPath != nil {
		selector, _, err := unstructured.NestedString(obj, names(*s.LabelSelectorPath)...)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*s.LabelSelectorPath), selector, err.Error()))
		}
	}
	return errs
}

func validateReplicas(obj map[string]any, path string) field.ErrorList {
	n, _, err := unstructured.NestedInt64(obj, names(path)...)
	invalid := func(detail string) field.ErrorList {
		return field.ErrorList{field.Invalid(field.NewPath(path), n, detail)}
	}
	switch {
	case err != nil:
		return invalid(err.Error())
	case n < 0:
		return invalid("should be a non-negative integer")
	case n > math.MaxInt32:
		return invalid(fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))
	}
	return nil
}
