package kwok

import (
	"bytes"
	_ "embed" // the schema
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// DefinitionName is the name of the CustomResourceDefinition of Stages.
const DefinitionName = "stages.kwok.x-k8s.io"

//go:embed stage_schema.yaml
var stageSchema []byte

var parse = sync.OnceValues(func() (*apiextensionsv1.JSONSchemaProps, error) {
	schema := &apiextensionsv1.JSONSchemaProps{}
	return schema, yaml.UnmarshalStrict(bytes.TrimSpace(stageSchema), schema)
})

// Definition returns the CustomResourceDefinition of Stages, as clusters with simulated nodes have it. kwok's own can replace it.
func Definition() (*apiextensionsv1.CustomResourceDefinition, error) {
	schema, err := parse()
	if err != nil {
		return nil, err
	}
	column := func(name, path string) apiextensionsv1.CustomResourceColumnDefinition {
		return apiextensionsv1.CustomResourceColumnDefinition{Name: name, Type: "string", JSONPath: path}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: DefinitionName},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: GroupVersion.Group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "stages", Singular: "stage", Kind: "Stage", ListKind: "StageList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: GroupVersion.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema.DeepCopy()},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{
					column("Resource", ".spec.resourceRef.kind"),
					column("Accepted", `.status.conditions[?(@.type=="Accepted")].status`),
					{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"},
				},
			}},
		},
	}, nil
}
