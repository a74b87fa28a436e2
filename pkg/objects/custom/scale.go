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

// scaleOf returns a version's scale subresource, or nil.
func (v *version) scaleOf() *apiextensionsv1.CustomResourceSubresourceScale {
	if v.spec.Subresources == nil {
		return nil
	}
	return v.spec.Subresources.Scale
}

// names returns the field names of a path like ".spec.replicas".
func names(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// scale returns the scale subresource, or nil. Its paths are those of the storage version, or of the first
// served version with a scale.
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
	at := func(obj objects.Object, path string) (int32, bool, error) {
		n, found, err := unstructured.NestedInt64(content(obj), names(path)...)
		return int32(n), found, err
	}
	return &objects.ScaleOf{
		Spec:   func(obj objects.Object) int32 { n, _, _ := at(obj, s.SpecReplicasPath); return n },
		Status: func(obj objects.Object) int32 { n, _, _ := at(obj, s.StatusReplicasPath); return n },
		SetSpec: func(obj objects.Object, replicas int32) {
			_ = unstructured.SetNestedField(content(obj), int64(replicas), names(s.SpecReplicasPath)...) // Check was called before
		},
		Selector: func(obj objects.Object) string {
			selector, _ := selectorAt(content(obj), s)
			return selector
		},
		Path: func(version string) []string {
			v := k.versions[version]
			if v == nil || v.scaleOf() == nil {
				return nil
			}
			return names(v.scaleOf().SpecReplicasPath)
		},
		Check: func(obj objects.Object) error {
			_, found, err := at(obj, s.SpecReplicasPath)
			if err == nil {
				_, _, err = at(obj, s.StatusReplicasPath)
			}
			if err == nil {
				_, err = selectorAt(content(obj), s)
			}
			if err == nil && !found {
				err = &objects.UnsetReplicas{Path: s.SpecReplicasPath}
			}
			return err
		},
	}
}

func selectorAt(obj map[string]any, s *apiextensionsv1.CustomResourceSubresourceScale) (string, error) {
	if s.LabelSelectorPath == nil || *s.LabelSelectorPath == "" {
		return "", nil
	}
	selector, _, err := unstructured.NestedString(obj, names(*s.LabelSelectorPath)...)
	return selector, err
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
