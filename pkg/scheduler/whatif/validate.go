package whatif

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/apiextensions"
	"github.com/minikctl/minikctl/pkg/objects/custom"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/scheduling"
)

// GroupDefinitionName is the name of the definition of the PodGroups of scheduling.x-k8s.io.
const GroupDefinitionName = "podgroups.scheduling.x-k8s.io"

// allGates are the feature gates of fields of PodGroups. Without its gate the API drops a field, and does not check it.
var allGates = feature.Gates{GenericWorkload: true, GangScheduling: true, TopologyAwareWorkloadScheduling: true}

// podGroup converts a PodGroup of Kubernetes' API, and sets its defaults and validates it as the API server does.
func podGroup(u *unstructured.Unstructured, namespace string) (*schedulingv1alpha2.PodGroup, error) {
	if u.GroupVersionKind().Version != schedulingv1alpha2.SchemeGroupVersion.Version {
		return nil, unknownVersion(u)
	}
	p, err := converted[schedulingv1alpha2.PodGroup](u)
	if err != nil {
		return nil, err
	}
	p.Namespace = namespace
	row := objects.Row(scheduling.PodGroups(allGates))
	row.Default(p)
	if errs := row.Validate(p, nil); len(errs) > 0 {
		return nil, apierrors.NewInvalid(u.GroupVersionKind().GroupKind(), u.GetName(), errs)
	}
	return p, nil
}

// validateLabelled sets the defaults of the PodGroups of scheduling.x-k8s.io in the manifests and validates them, by the definition of the manifests or of the
// cluster, or else by that of scheduler-plugins.
func (m *Manifests) validateLabelled() error {
	if len(m.labelled) == 0 {
		return nil
	}
	definition := m.GroupDefinition
	if definition == nil {
		definition = publishedDefinition()
	}
	definition = definition.DeepCopy()
	objects.Row(apiextensions.CustomResourceDefinitions).Default(definition)
	definition.Status.AcceptedNames = definition.Spec.Names
	row, err := custom.Row(definition, nil)
	if err != nil {
		return err
	}
	for _, g := range m.labelled {
		if err := validateCustom(&row, g.Unstructured); err != nil {
			return g.wrap(err)
		}
	}
	return nil
}

// validateCustom sets the defaults of a custom resource and validates it.
func validateCustom(row *objects.Resource, u *unstructured.Unstructured) error {
	i := slices.IndexFunc(row.Versions, func(v objects.VersionOf) bool {
		return v.Version == u.GroupVersionKind().Version && !v.Unserved
	})
	if i < 0 {
		return unknownVersion(u)
	}
	version := row.Versions[i]
	unknown, err := version.Coerce(u)
	if err != nil {
		return err
	}
	if len(unknown) > 0 {
		for i := range unknown {
			unknown[i] = fmt.Sprintf("unknown field %q", unknown[i])
		}
		return errors.New("strict decoding error: " + strings.Join(unknown, ", "))
	}
	version.Default(u)
	if errs := append(row.Validate(u, nil), version.Validate(u, nil)...); len(errs) > 0 {
		return apierrors.NewInvalid(u.GroupVersionKind().GroupKind(), u.GetName(), errs)
	}
	return nil
}

// unknownVersion is the error of an object whose version no API server serves.
func unknownVersion(u *unstructured.Unstructured) error {
	return fmt.Errorf("no matches for kind %q in version %q", u.GetKind(), u.GetAPIVersion())
}

// publishedDefinition returns the definition of scheduler-plugins, as far as users set its fields.
func publishedDefinition() *apiextensionsv1.CustomResourceDefinition {
	type properties = map[string]apiextensionsv1.JSONSchemaProps
	object := func(p properties) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: p}
	}
	number := apiextensionsv1.JSONSchemaProps{Type: "integer", Format: "int32"}
	members := number
	members.Minimum = new(float64(1))
	amounts := apiextensionsv1.JSONSchemaProps{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{
		Allows: true,
		Schema: &apiextensionsv1.JSONSchemaProps{XIntOrString: true, AnyOf: []apiextensionsv1.JSONSchemaProps{{Type: "integer"}, {Type: "string"}}},
	}}
	schema := object(properties{
		"spec":   object(properties{"minMember": members, "minResources": amounts, "scheduleTimeoutSeconds": number}),
		"status": {Type: "object", XPreserveUnknownFields: new(true)},
	})
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: GroupDefinitionName},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "scheduling.x-k8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "PodGroup", ListKind: "PodGroupList", Plural: "podgroups", Singular: "podgroup"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
				{Name: "v1alpha1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema}},
			},
		},
	}
}
