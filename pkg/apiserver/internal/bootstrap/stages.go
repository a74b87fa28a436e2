package bootstrap

import (
	"context"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects/kwok"
)

var definitions = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// stageDefinition returns the definition of Stages as it is once it is established, so that it is served without a write.
func (b *Bootstrap) stageDefinition(context.Context) ([]virtual, error) {
	crd, err := kwok.Definition()
	if err != nil {
		return nil, err
	}
	condition := func(t apiextensionsv1.CustomResourceDefinitionConditionType, reason, message string) apiextensionsv1.CustomResourceDefinitionCondition {
		return apiextensionsv1.CustomResourceDefinitionCondition{
			Type: t, Status: apiextensionsv1.ConditionTrue, LastTransitionTime: b.created, Reason: reason, Message: message,
		}
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&apiextensionsv1.CustomResourceDefinitionStatus{
		AcceptedNames: crd.Spec.Names, StoredVersions: []string{kwok.GroupVersion.Version},
		Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
			condition(apiextensionsv1.NamesAccepted, "NoConflicts", "no conflicts found"),
			condition(apiextensionsv1.Established, "InitialNamesAccepted", "the initial names have been accepted"),
		},
	})
	if err != nil {
		return nil, err
	}
	return []virtual{{object: crd, status: &status{Agent, fields}}}, nil
}
