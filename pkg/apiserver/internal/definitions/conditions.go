package definitions

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/util/webhook"
)

func conditionTrue(crd *apiextensionsv1.CustomResourceDefinition, t apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	return apihelpers.IsCRDConditionTrue(crd, t)
}

// set writes a condition, with the time of the registrar's clock where its status changes.
func (r *Registrar) set(crd *apiextensionsv1.CustomResourceDefinition, c apiextensionsv1.CustomResourceDefinitionCondition) {
	c.LastTransitionTime = metav1.NewTime(r.config.Clock.Now().Truncate(time.Second))
	if old := apihelpers.FindCRDCondition(crd, c.Type); old != nil && old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	apihelpers.SetCRDCondition(crd, c)
	apihelpers.FindCRDCondition(crd, c.Type).LastTransitionTime = c.LastTransitionTime // the library sets the machine's time
}

// decide sets the accepted names and all conditions of a definition but Terminating.
func (r *Registrar) decide(crd *apiextensionsv1.CustomResourceDefinition) {
	if names := crd.Spec.Names; !sameNames(names, crd.Status.AcceptedNames) || apihelpers.FindCRDCondition(crd, apiextensionsv1.NamesAccepted) == nil {
		r.name(crd)
	}
	if conditionTrue(crd, apiextensionsv1.NamesAccepted) && !conditionTrue(crd, apiextensionsv1.Established) {
		r.set(crd, established(crd))
	}
	if c := nonStructural(crd); c != nil {
		r.set(crd, *c)
	} else {
		apihelpers.RemoveCRDCondition(crd, apiextensionsv1.NonStructuralSchema)
	}
	if c := approved(crd); c != nil {
		r.set(crd, *c)
	}
}

func sameNames(a, b apiextensionsv1.CustomResourceDefinitionNames) bool {
	return a.Plural == b.Plural && a.Singular == b.Singular && a.Kind == b.Kind && a.ListKind == b.ListKind &&
		slices.Equal(a.ShortNames, b.ShortNames) && slices.Equal(a.Categories, b.Categories)
}

// taken returns the accepted names of a group's definitions.
type taken struct{ resources, kinds sets.Set[string] }

func (r *Registrar) taken(group string) taken {
	t := taken{sets.New[string](), sets.New[string]()}
	for _, crd := range r.known {
		if crd.Spec.Group == group {
			n := crd.Status.AcceptedNames
			t.resources.Insert(n.Plural, n.Singular).Insert(n.ShortNames...)
			t.kinds.Insert(n.Kind, n.ListKind)
		}
	}
	return t
}

// name accepts the names of a definition that no other definition has.
func (r *Registrar) name(crd *apiextensionsv1.CustomResourceDefinition) {
	requested, t := crd.Spec.Names, r.taken(crd.Spec.Group)
	accepted := crd.Status.AcceptedNames
	condition := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found",
	}
	refuse := func(reason string, err error) {
		condition.Status, condition.Reason, condition.Message = apiextensionsv1.ConditionFalse, reason, err.Error()
	}
	one := func(reason, name string, has *string, used sets.Set[string]) {
		if name != *has && used.Has(name) {
			refuse(reason, inUse(name))
			return
		}
		*has = name
	}
	one("PluralConflict", requested.Plural, &accepted.Plural, t.resources)
	one("SingularConflict", requested.Singular, &accepted.Singular, t.resources)
	var errs []error
	for _, name := range requested.ShortNames {
		if !slices.Contains(accepted.ShortNames, name) && t.resources.Has(name) {
			errs = append(errs, inUse(name))
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		refuse("ShortNamesConflict", err)
	} else {
		accepted.ShortNames = requested.ShortNames
	}
	one("KindConflict", requested.Kind, &accepted.Kind, t.kinds)
	one("ListKindConflict", requested.ListKind, &accepted.ListKind, t.kinds)
	accepted.Categories = requested.Categories
	crd.Status.AcceptedNames = accepted
	r.set(crd, condition)
	if apihelpers.FindCRDCondition(crd, apiextensionsv1.Established) == nil && condition.Status == apiextensionsv1.ConditionFalse {
		r.set(crd, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Reason: "NotAccepted", Message: "not all names are accepted",
		})
	}
}

func inUse(name string) error { return fmt.Errorf("%q is already in use", name) }

// established is the condition of a definition whose names are accepted.
func established(crd *apiextensionsv1.CustomResourceDefinition) apiextensionsv1.CustomResourceDefinitionCondition {
	c := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue, Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
	}
	if conv := crd.Spec.Conversion; conv != nil && conv.Webhook != nil && conv.Webhook.ClientConfig != nil &&
		len(webhook.ValidateCABundle(field.NewPath(""), conv.Webhook.ClientConfig.CABundle)) > 0 {
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionFalse, "InvalidCABundle", "The conversion webhook CABundle is invalid"
	}
	return c
}

// nonStructural returns the condition of an old definition without structural schemas; nil: its schemas are structural.
func nonStructural(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinitionCondition {
	c := &apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionTrue, Reason: "Violations"}
	var errs field.ErrorList
	if crd.Spec.PreserveUnknownFields {
		errs = append(errs, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	for i, v := range crd.Spec.Versions {
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		var validation apiextensions.CustomResourceValidation
		if apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, &validation, nil) != nil {
			continue
		}
		s, err := structural.NewStructural(validation.OpenAPIV3Schema)
		if err != nil {
			c.Status, c.Reason = apiextensionsv1.ConditionUnknown, "StructuralError"
			c.Message = fmt.Sprintf("failed to check validation schema for version %s: %v", v.Name, err)
			return c
		}
		errs = append(errs, structural.ValidateStructural(field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema"), s)...)
	}
	if len(errs) == 0 {
		return nil
	}
	c.Message = errs.ToAggregate().Error()
	return c
}

// approvals maps the state of the annotation api-approved.kubernetes.io to the reason of the condition
// KubernetesAPIApprovalPolicyConformant, which definitions in protected groups (*.k8s.io, *.kubernetes.io) have.
var approvals = map[apihelpers.APIApprovalState]string{
	apihelpers.APIApprovalInvalid: "InvalidAnnotation", apihelpers.APIApprovalMissing: "MissingAnnotation",
	apihelpers.APIApproved: "ApprovedAnnotation", apihelpers.APIApprovalBypassed: "UnapprovedAnnotation",
}

// approved returns the condition KubernetesAPIApprovalPolicyConformant of a definition in a protected group; nil for other groups.
func approved(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinitionCondition {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return nil
	}
	state, text := apihelpers.GetAPIApprovalState(crd.Annotations)
	c := &apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionFalse, Reason: approvals[state], Message: text,
	}
	switch {
	case state == apihelpers.APIApproved:
		c.Status = apiextensionsv1.ConditionTrue
	case c.Reason == "":
		c.Status, c.Reason = apiextensionsv1.ConditionUnknown, "UnknownAnnotation"
	}
	return c
}
