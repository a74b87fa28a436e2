// Package networking holds the rows of the group networking.k8s.io.
package networking

import (
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

const (
	group   = "networking.k8s.io"
	version = "v1"
	// none is the cell of an unset field.
	none = "<none>"
)

// IngressClasses is the row of IngressClass.
var IngressClasses = objects.Def[*networkingv1.IngressClass]{
	Names:         objects.Names{Group: group, Version: version, Kind: "IngressClass", Plural: "ingressclasses", Cluster: true},
	ApplyPriority: 140,
	Versions:      oldIngressClasses,
	New:           func() *networkingv1.IngressClass { return &networkingv1.IngressClass{} },
	NewList:       func() runtime.Object { return &networkingv1.IngressClassList{} },
	Default:       defaultClass,
	Prepare:       prepareClass,
	Validate:      validateClass,
	Columns: []objects.Column[*networkingv1.IngressClass]{
		{Name: "Name", Format: "name", Description: objects.NameColumn[*networkingv1.IngressClass]().Description,
			Cell: func(c *networkingv1.IngressClass, _ time.Time) any {
				if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
					return c.Name + " (default)"
				}
				return c.Name
			}},
		{Name: "Controller", Description: "Controller that is responsible for handling this class",
			Cell: func(c *networkingv1.IngressClass, _ time.Time) any { return c.Spec.Controller }},
		{Name: "Parameters", Description: "A reference to a resource with additional parameters",
			Cell: func(c *networkingv1.IngressClass, _ time.Time) any { return parameters(c.Spec.Parameters) }},
		objects.AgeColumn[*networkingv1.IngressClass](),
	},
}

func parameters(p *networkingv1.IngressClassParametersReference) string {
	if p == nil {
		return none
	}
	kind := p.Kind
	if p.APIGroup != nil {
		kind += "." + *p.APIGroup
	}
	return kind + "/" + p.Name
}

func defaultClass(c *networkingv1.IngressClass) {
	if c.Spec.Parameters != nil && c.Spec.Parameters.Scope == nil {
		c.Spec.Parameters.Scope = new(networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

func prepareClass(c, old *networkingv1.IngressClass) {
	if old == nil {
		c.Generation = 1
		return
	}
	check.Generation(c, old, func() bool { return !check.Same(&c.Spec, &old.Spec) })
}

// longestController is the maximum length of a controller's name.
const longestController = 250

func validateClass(c, old *networkingv1.IngressClass) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("spec")
	if old != nil {
		errs = append(check.MetaUpdate(c, old), check.Immutable(c.Spec.Controller, old.Spec.Controller, at.Child("controller"))...)
	}
	errs = append(errs, check.Meta(c, false, validation.NameIsDNSSubdomain)...)
	if len(c.Spec.Controller) > longestController {
		errs = append(errs, field.TooLong(at.Child("controller"), "", longestController))
	}
	errs = append(errs, utilvalidation.IsDomainPrefixedPath(at.Child("controller"), c.Spec.Controller)...)
	if c.Spec.Parameters != nil {
		errs = append(errs, validateParameters(c.Spec.Parameters, at.Child("parameters"))...)
	}
	return errs
}

var scopes = []string{networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace}

func validateParameters(p *networkingv1.IngressClassParametersReference, at *field.Path) field.ErrorList {
	errs := reference(p.APIGroup, p.Kind, p.Name, at)
	if p.Scope == nil {
		return append(errs, field.Required(at.Child("scope"), ""))
	}
	errs = append(errs, check.OneOf(*p.Scope, scopes, at, "scope")...)
	inNamespace := at.Child("namespace")
	switch {
	case *p.Scope == networkingv1.IngressClassParametersReferenceScopeNamespace && p.Namespace == nil:
		errs = append(errs, field.Required(inNamespace, "`parameters.scope` is set to 'Namespace'"))
	case *p.Scope == networkingv1.IngressClassParametersReferenceScopeNamespace:
		errs = append(errs, check.Invalid(inNamespace, *p.Namespace, validation.ValidateNamespaceName(*p.Namespace, false))...)
	case *p.Scope == networkingv1.IngressClassParametersReferenceScopeCluster && p.Namespace != nil:
		errs = append(errs, field.Forbidden(inNamespace, "`parameters.scope` is set to 'Cluster'"))
	}
	return errs
}

// reference checks a reference to an object of any kind.
func reference(group *string, kind, name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if group != nil {
		errs = append(errs, check.Subdomain(*group, at, "apiGroup")...)
	}
	return append(append(errs, segment(kind, at.Child("kind"))...), segment(name, at.Child("name"))...)
}

// segment checks a required value that is a path segment.
func segment(value string, at *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return check.Invalid(at, value, content.IsPathSegmentName(value))
}
