package controllertest

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

// Custom resources that a test may Define.
var (
	Shirts = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "shirts"} // kind Shirt, namespaced
	Shops  = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "shops"}  // kind Shop, cluster-scoped
)

// Scale gives the kind of a definition the scale subresource, with the replicas in spec.replicas.
func Scale(crd *apiextensionsv1.CustomResourceDefinition) {
	crd.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{
		Scale: &apiextensionsv1.CustomResourceSubresourceScale{SpecReplicasPath: ".spec.replicas", StatusReplicasPath: ".status.replicas"}}
}

// Define creates a CustomResourceDefinition, as the options change it, and waits until it is established.
func (c *Cluster) Define(kind string, resource schema.GroupVersionResource, scope apiextensionsv1.ResourceScope,
	options ...func(*apiextensionsv1.CustomResourceDefinition),
) {
	c.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: resource.GroupResource().String()}}
	crd.Spec.Group, crd.Spec.Scope = resource.Group, scope
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: resource.Resource}
	keep := true
	crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: resource.Version, Served: true, Storage: true,
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}}}}
	for _, change := range options {
		change(crd)
	}
	Create(c, controller.CustomResourceDefinitions, crd)
	c.Until(kind+" established", func() bool {
		crd, _ := Get[*apiextensionsv1.CustomResourceDefinition](c, controller.CustomResourceDefinitions, "/"+crd.Name)
		for _, condition := range crd.Status.Conditions {
			if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
				return true
			}
		}
		return false
	})
}

// CreateCustom creates an object of a custom kind. The namespace is empty for a cluster-scoped kind.
func (c *Cluster) CreateCustom(kind string, resource schema.GroupVersionResource, namespace, name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	c.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind}}
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetOwnerReferences(owners)
	return Create(c, resource, u)
}
