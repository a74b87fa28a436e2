// Package apiextensions has the row of the resource that describes other resources.
package apiextensions

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// CustomResourceDefinitions can be read only: custom resources are not served, so there are none of them, and clients
// that ask (kubectl does before it says that it does not know a kind) are told so. Being empty, the resource needs no
// more of its type than metadata.
var CustomResourceDefinitions = objects.Def[*metav1.PartialObjectMetadata]{
	Names: objects.Names{
		Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Plural: "customresourcedefinitions",
		Short: []string{"crd", "crds"}, Categories: []string{"api-extensions"}, Cluster: true,
	},
	New:     func() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} },
	NewList: func() runtime.Object { return &metav1.PartialObjectMetadataList{} },
	Verbs:   []string{"get", "list", "watch"},
}
