// Package flunders is an extension API server on Kubernetes' library for such servers. It
// keeps Flunders in memory, and delegates authentication and authorization to the cluster.
package flunders

import (
	apiextensions "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Version is the group-version that the server serves.
var Version = schema.GroupVersion{Group: "wardle.example.com", Version: "v1alpha1"}

// Flunder is an object with a reference to another.
type Flunder struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Reference string `json:"reference,omitempty"`
}

// FlunderList is a list of Flunders.
type FlunderList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Flunder `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (f *Flunder) DeepCopyObject() runtime.Object {
	out := *f
	out.ObjectMeta = *f.ObjectMeta.DeepCopy()
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *FlunderList) DeepCopyObject() runtime.Object {
	out := &FlunderList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy()}
	for i := range l.Items {
		out.Items = append(out.Items, *l.Items[i].DeepCopyObject().(*Flunder))
	}
	return out
}

// The names of the definitions in OpenAPI.
const (
	flunderModel = "com.example.wardle.v1alpha1.Flunder"
	listModel    = "com.example.wardle.v1alpha1.FlunderList"
)

// OpenAPIModelName names the definition.
func (Flunder) OpenAPIModelName() string { return flunderModel }

// OpenAPIModelName names the definition.
func (FlunderList) OpenAPIModelName() string { return listModel }

// definitions returns the OpenAPI definitions of Kubernetes' library and of these types.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	out := apiextensions.GetOpenAPIDefinitions(ref)
	meta, listMeta := metav1.ObjectMeta{}.OpenAPIModelName(), metav1.ListMeta{}.OpenAPIModelName()
	text := *spec.StringProperty()
	of := func(description string, properties map[string]spec.Schema, uses ...string) common.OpenAPIDefinition {
		properties["kind"], properties["apiVersion"] = text, text
		return common.OpenAPIDefinition{Dependencies: uses, Schema: spec.Schema{SchemaProps: spec.SchemaProps{
			Description: description, Type: []string{"object"}, Properties: properties,
		}}}
	}
	at := func(name string) spec.Schema { return spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(name)}} }
	out[flunderModel] = of("Flunder is an object with a reference to another.", map[string]spec.Schema{"metadata": at(meta), "reference": text}, meta)
	one := at(flunderModel)
	out[listModel] = of("FlunderList is a list of Flunders.", map[string]spec.Schema{"metadata": at(listMeta), "items": *spec.ArrayProperty(&one)}, listMeta, flunderModel)
	return out
}
