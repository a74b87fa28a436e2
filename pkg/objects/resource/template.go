package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/volume"
)

// ResourceClaimTemplates is the row of ResourceClaimTemplate.
var ResourceClaimTemplates = objects.Def[*resourcev1.ResourceClaimTemplate]{
	Names:          objects.Names{Group: group, Version: version, Kind: "ResourceClaimTemplate", Plural: "resourceclaimtemplates"},
	New:            func() *resourcev1.ResourceClaimTemplate { return &resourcev1.ResourceClaimTemplate{} },
	ReturnsDeleted: true,
	Controller:     "resource-claim-controller",
	NewList:        func() runtime.Object { return &resourcev1.ResourceClaimTemplateList{} },
	Default:        func(t *resourcev1.ResourceClaimTemplate) { defaultClaim(&t.Spec.Spec) },
	Validate:       validateTemplate,
}

// validateTemplate also checks an update like a create: the spec is immutable, but a stored one may be invalid.
func validateTemplate(t, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	errs := check.Meta(t, true, validation.NameIsDNSSubdomain)
	errs = append(errs, volume.TemplateMeta(&t.Spec.ObjectMeta, check.Spec.Child("metadata"))...)
	errs = append(errs, validateClaimSpec(&t.Spec.Spec, check.Spec.Child("spec"))...)
	if old == nil {
		return errs
	}
	errs = append(errs, check.MetaUpdate(t, old)...)
	return append(errs, check.ImmutableShown(t.Spec, old.Spec, check.Spec)...)
}
