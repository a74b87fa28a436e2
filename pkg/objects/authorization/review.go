// Package authorization holds the rows of the group authorization.k8s.io: access reviews. They are not
// stored; the API server responds to their creation.
package authorization

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

func names(kind, plural string, cluster bool) objects.Names {
	return objects.Names{Group: authorizationv1.GroupName, Version: "v1", Kind: kind, Plural: plural, Cluster: cluster}
}

var onlyCreate = []string{"create"}

// SubjectAccessReviews is the row of SubjectAccessReview.
var SubjectAccessReviews = objects.Def[*authorizationv1.SubjectAccessReview]{
	Names:    names("SubjectAccessReview", "subjectaccessreviews", true),
	Versions: oldSubjectAccessReviews,
	New:      func() *authorizationv1.SubjectAccessReview { return &authorizationv1.SubjectAccessReview{} },
	NewList:  func() runtime.Object { return &authorizationv1.SubjectAccessReview{} }, // there is no list type
	Validate: func(r, _ *authorizationv1.SubjectAccessReview) field.ErrorList {
		return append(subject(&r.Spec), empty(&r.ObjectMeta, "must be empty")...)
	},
	Verbs: onlyCreate,
}

// LocalSubjectAccessReviews is the row of LocalSubjectAccessReview.
var LocalSubjectAccessReviews = objects.Def[*authorizationv1.LocalSubjectAccessReview]{
	Names:    names("LocalSubjectAccessReview", "localsubjectaccessreviews", false),
	Versions: oldLocalSubjectAccessReviews,
	New:      func() *authorizationv1.LocalSubjectAccessReview { return &authorizationv1.LocalSubjectAccessReview{} },
	NewList:  func() runtime.Object { return &authorizationv1.LocalSubjectAccessReview{} },
	Validate: validateLocal,
	Verbs:    onlyCreate,
}

// SelfSubjectAccessReviews is the row of SelfSubjectAccessReview.
var SelfSubjectAccessReviews = objects.Def[*authorizationv1.SelfSubjectAccessReview]{
	Names:    names("SelfSubjectAccessReview", "selfsubjectaccessreviews", true),
	Versions: oldSelfSubjectAccessReviews,
	New:      func() *authorizationv1.SelfSubjectAccessReview { return &authorizationv1.SelfSubjectAccessReview{} },
	NewList:  func() runtime.Object { return &authorizationv1.SelfSubjectAccessReview{} },
	Validate: func(r, _ *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
		errs := append(oneOf(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes), attributes(r.Spec.ResourceAttributes)...)
		return append(errs, empty(&r.ObjectMeta, "must be empty")...)
	},
	Verbs: onlyCreate,
}

// SelfSubjectRulesReviews is the row of SelfSubjectRulesReview.
var SelfSubjectRulesReviews = objects.Def[*authorizationv1.SelfSubjectRulesReview]{
	Names:    names("SelfSubjectRulesReview", "selfsubjectrulesreviews", true),
	Versions: oldSelfSubjectRulesReviews,
	New:      func() *authorizationv1.SelfSubjectRulesReview { return &authorizationv1.SelfSubjectRulesReview{} },
	NewList:  func() runtime.Object { return &authorizationv1.SelfSubjectRulesReview{} },
	Validate: func(_, _ *authorizationv1.SelfSubjectRulesReview) field.ErrorList { return nil },
	Verbs:    onlyCreate,
}

func validateLocal(r, _ *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := subject(&r.Spec)
	rest := r.ObjectMeta
	rest.Namespace = ""
	if len(empty(&rest, "")) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("metadata"), r.ObjectMeta, "must be empty except for namespace"))
	}
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), a.Namespace, "must match metadata.namespace"))
	}
	if a := r.Spec.NonResourceAttributes; a != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), check.Shown(a), "disallowed on this kind of request"))
	}
	return errs
}

func empty(m *metav1.ObjectMeta, what string) field.ErrorList {
	rest := *m
	rest.ManagedFields = nil
	if equality.Semantic.DeepEqual(metav1.ObjectMeta{}, rest) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), *m, what)}
}

func subject(s *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := oneOf(s.ResourceAttributes, s.NonResourceAttributes)
	if s.User == "" && len(s.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), s.User, "at least one of user or group must be specified"))
	}
	return append(errs, attributes(s.ResourceAttributes)...)
}

func oneOf(r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) field.ErrorList {
	at := field.NewPath("spec")
	switch {
	case r != nil && n != nil:
		return field.ErrorList{field.Invalid(at.Child("nonResourceAttributes"), check.Shown(n), "cannot be specified in combination with resourceAttributes")}
	case r == nil && n == nil:
		return field.ErrorList{field.Invalid(at.Child("resourceAttributes"), n, "exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	}
	return nil
}

func attributes(r *authorizationv1.ResourceAttributes) field.ErrorList {
	if r == nil {
		return nil
	}
	at := field.NewPath("spec.resourceAttributes")
	var errs field.ErrorList
	if f := r.FieldSelector; f != nil {
		path := at.Child("fieldSelector")
		errs = append(errs, selector(f.RawSelector, len(f.Requirements), path)...)
		for i, q := range f.Requirements {
			opts := metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
			errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(q, opts, path.Child("requirements").Index(i))...)
		}
	}
	if l := r.LabelSelector; l != nil {
		path := at.Child("labelSelector")
		errs = append(errs, selector(l.RawSelector, len(l.Requirements), path)...)
		for i, q := range l.Requirements {
			opts := metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
			errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(q, opts, path.Child("requirements").Index(i))...)
		}
	}
	return errs
}

func selector(raw string, requirements int, at *field.Path) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(at.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(at.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", at))}
	}
	return nil
}
