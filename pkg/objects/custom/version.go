package custom

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/minikctl/minikctl/pkg/objects"
)

// version is one version of a kind.
type version struct {
	*kind
	spec *apiextensionsv1.CustomResourceDefinitionVersion
	gvk  schema.GroupVersionKind

	// Built on the first call; safe for concurrent use.
	schema func() (*structural.Structural, error) // with its defaults pruned; nil: no schema
	shape  func() *outline                        // of the schema
	rules  func() (*rules, error)
	merge  func() (typed.ParseableType, error)

	last atomic.Pointer[shown] // the last result of show, for the many selectors and columns of one object
}

func newVersion(k *kind, spec *apiextensionsv1.CustomResourceDefinitionVersion) *version {
	v := &version{kind: k, spec: spec, gvk: k.groupKind().WithVersion(spec.Name)}
	v.schema = sync.OnceValues(v.makeSchema)
	v.shape = sync.OnceValue(v.makeShape)
	v.rules = sync.OnceValues(v.makeRules)
	v.merge = sync.OnceValues(v.makeMerge)
	return v
}

// serve returns the version's entry in the row.
func (v *version) serve() objects.VersionOf {
	s := objects.VersionOf{
		Group: v.gvk.Group, Version: v.gvk.Version,
		New: func() runtime.Object { return v.new() }, NewList: v.newList,
		Default: v.setDefaults, Coerce: v.coerce,
		Validate: v.validate, ValidateStatus: v.validateStatus,
		Deprecated: v.deprecation(), Unserved: !v.spec.Served,
		Columns: v.columns(), Selectable: v.selectable(),
		Merge: v.merge, OpenAPI: v.openAPI,
	}
	if v != v.stored {
		s.To = func(obj runtime.Object) (objects.Object, error) { return v.convert(obj, v.stored) }
		s.From = func(obj objects.Object) (runtime.Object, error) { return v.convert(obj, v) }
	}
	return s
}

func (v *version) new() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v.gvk)
	return u
}

func (v *version) newList() runtime.Object {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v.gvk.GroupVersion().WithKind(v.names.ListKind))
	return list
}

// internal returns the version's schema in the library's type, or nil.
func (v *version) internal() (*apiextensions.JSONSchemaProps, error) {
	if v.spec.Schema == nil {
		return nil, nil
	}
	out := &apiextensions.CustomResourceValidation{}
	err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.spec.Schema, out, nil)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", v.gvk, err)
	}
	return out.OpenAPIV3Schema, nil
}

var errSchema = errors.New("the server could not properly serve the CR schema")

func (v *version) makeSchema() (*structural.Structural, error) {
	props, err := v.internal()
	if err != nil || v.spec.Schema == nil {
		return nil, err
	}
	s, err := structural.NewStructural(props)
	if v.crd.Spec.PreserveUnknownFields {
		return s, nil // of v1beta1, whose schema need not be structural
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSchema, err)
	}
	s = s.DeepCopy() // its defaults are shared with the definition
	if err := defaulting.PruneDefaults(s); err != nil {
		return nil, fmt.Errorf("%w: %w", errSchema, err)
	}
	return s, nil
}

// setDefaults sets the schema's defaults.
func (v *version) setDefaults(obj runtime.Object) {
	s, err := v.schema()
	if err != nil || v.shape().complete(content(obj)) {
		return
	}
	defaulting.Default(content(obj), s)
}

// deprecation returns the text of the Warning header for the version, or "" if it is not deprecated.
func (v *version) deprecation() string {
	if !v.spec.Deprecated {
		return ""
	}
	if v.spec.DeprecationWarning != nil {
		return *v.spec.DeprecationWarning
	}
	specKind := v.crd.Spec.Names.Kind
	text := fmt.Sprintf("%s/%s %s is deprecated", v.gvk.Group, v.gvk.Version, specKind)
	var newer []string
	for _, o := range v.crd.Spec.Versions {
		if o.Served && !o.Deprecated && apiversion.CompareKubeAwareVersionStrings(v.gvk.Version, o.Name) < 0 {
			newer = append(newer, o.Name)
		}
	}
	if len(newer) == 0 {
		return text
	}
	newest := slices.MaxFunc(newer, apiversion.CompareKubeAwareVersionStrings)
	return fmt.Sprintf("%s; use %s/%s %s", text, v.gvk.Group, newest, specKind)
}
