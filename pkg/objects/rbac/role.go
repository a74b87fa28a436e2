// Package rbac holds the rows of the group rbac.authorization.k8s.io.
package rbac

import (
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

const version = "v1"

// Roles is the row of Role.
var Roles = objects.Def[*rbacv1.Role]{
	Names:         objects.Names{Group: rbacv1.GroupName, Version: version, Kind: "Role", Plural: "roles"},
	ApplyPriority: 90,
	Versions:      oldRoles,
	New:           func() *rbacv1.Role { return &rbacv1.Role{} },
	NewList:       func() runtime.Object { return &rbacv1.RoleList{} },
	ValidName:     validName,
	Validate: func(r, old *rbacv1.Role) field.ErrorList {
		errs := append(check.Meta(r, true, validName), rules(r.Rules, true)...)
		if old != nil {
			errs = append(errs, check.MetaUpdate(r, old)...)
		}
		return errs
	},
	Columns:        roleColumns[*rbacv1.Role](),
	CreateOnUpdate: true,
}

// ClusterRoles is the row of ClusterRole.
var ClusterRoles = objects.Def[*rbacv1.ClusterRole]{
	Names:          objects.Names{Group: rbacv1.GroupName, Version: version, Kind: "ClusterRole", Plural: "clusterroles", Cluster: true},
	ApplyPriority:  110,
	Versions:       oldClusterRoles,
	New:            func() *rbacv1.ClusterRole { return &rbacv1.ClusterRole{} },
	NewList:        func() runtime.Object { return &rbacv1.ClusterRoleList{} },
	ValidName:      validName,
	Validate:       validateClusterRole,
	Columns:        roleColumns[*rbacv1.ClusterRole](),
	CreateOnUpdate: true,
}

// validName accepts every path segment, for example "system:node".
func validName(name string, _ bool) []string { return content.IsPathSegmentName(name) }

// roleColumns returns the columns of a kind without its own printer.
func roleColumns[T objects.Object]() []objects.Column[T] {
	return []objects.Column[T]{
		objects.NameColumn[T](),
		{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
			Cell: func(obj T, _ time.Time) any { return obj.GetCreationTimestamp().UTC().Format(time.RFC3339) }},
	}
}

func validateClusterRole(r, old *rbacv1.ClusterRole) field.ErrorList {
	errs := append(check.Meta(r, false, validName), rules(r.Rules, false)...)
	if r.AggregationRule != nil {
		at := field.NewPath("aggregationRule", "clusterRoleSelectors")
		opts := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: old != nil && !plainSelectors(old.AggregationRule)}
		if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
			errs = append(errs, field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
		}
		for i := range r.AggregationRule.ClusterRoleSelectors {
			s := &r.AggregationRule.ClusterRoleSelectors[i]
			errs = append(errs, check.Selector(s, opts, at.Index(i))...)
			if parsed, err := metav1.LabelSelectorAsSelector(s); err != nil {
				errs = append(errs, field.Invalid(at.Index(i), parsed, "invalid label selector."))
			}
		}
	}
	if old != nil {
		errs = append(errs, check.MetaUpdate(r, old)...)
	}
	return errs
}

func plainSelectors(a *rbacv1.AggregationRule) bool {
	if a == nil {
		return true
	}
	for i := range a.ClusterRoleSelectors {
		if len(check.Selector(&a.ClusterRoleSelectors[i], metav1validation.LabelSelectorValidationOptions{}, nil)) > 0 {
			return false
		}
	}
	return true
}

func rules(list []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		r, at := &list[i], field.NewPath("rules").Index(i)
		if len(r.Verbs) == 0 {
			errs = append(errs, field.Required(at.Child("verbs"), "verbs must contain at least one value"))
		}
		if len(r.NonResourceURLs) > 0 {
			urls := at.Child("nonResourceURLs")
			if namespaced {
				errs = append(errs, field.Invalid(urls, r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
			}
			if len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0 {
				errs = append(errs, field.Invalid(urls, r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
			}
			continue
		}
		if len(r.APIGroups) == 0 {
			errs = append(errs, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
		}
		if len(r.Resources) == 0 {
			errs = append(errs, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
		}
	}
	return errs
}
