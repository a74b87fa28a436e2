package apiregistration

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// pathSegment checks that a name is a path segment. validate checks that it matches the spec.
func pathSegment(name string, _ bool) []string { return content.IsPathSegmentName(name) }

// The maximum priorities.
const (
	maxGroupPriority   = 20000
	maxVersionPriority = 1000
)

func validateService(s, old *apiregistrationv1.APIService) field.ErrorList {
	var errs field.ErrorList
	if old != nil {
		errs = validation.ValidateObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta, check.Metadata)
	}
	want := s.Spec.Version + "." + s.Spec.Group
	// Unlike for other kinds, finalizers without a domain are not checked.
	errs = append(errs, validation.ValidateObjectMeta(&s.ObjectMeta, false, func(name string, prefix bool) []string {
		if wrong := pathSegment(name, prefix); len(wrong) > 0 {
			return wrong
		}
		if name != want {
			return []string{fmt.Sprintf("must be `spec.version+\".\"+spec.group`: %q", want)}
		}
		return nil
	}, check.Metadata)...)
	return append(errs, validateSpec(&s.Spec)...)
}

func validateSpec(spec *apiregistrationv1.APIServiceSpec) field.ErrorList {
	var errs field.ErrorList
	group := check.Spec.Child("group")
	if spec.Group != "" {
		errs = append(errs, check.Invalid(group, spec.Group, utilvalidation.IsDNS1123Subdomain(spec.Group))...)
	} else if spec.Version != "v1" {
		errs = append(errs, field.Required(group, "only v1 may have an empty group and it better be legacy kube"))
	}
	errs = append(errs, check.Invalid(check.Spec.Child("version"), spec.Version, utilvalidation.IsDNS1035Label(spec.Version))...)
	for _, p := range []struct {
		name      string
		value, to int32
	}{{"groupPriorityMinimum", spec.GroupPriorityMinimum, maxGroupPriority}, {"versionPriority", spec.VersionPriority, maxVersionPriority}} {
		if p.value <= 0 || p.value > p.to {
			errs = append(errs, field.Invalid(check.Spec.Child(p.name), p.value, fmt.Sprintf("must be positive and less than %d", p.to)))
		}
	}
	return append(errs, validateReference(spec)...)
}

func validateReference(spec *apiregistrationv1.APIServiceSpec) field.ErrorList {
	var errs field.ErrorList
	insecure, bundle := check.Spec.Child("insecureSkipTLSVerify"), check.Spec.Child("caBundle")
	if spec.Service == nil {
		if len(spec.CABundle) > 0 {
			errs = append(errs, field.Invalid(bundle, fmt.Sprintf("%d bytes", len(spec.CABundle)), "local APIServices may not have a caBundle"))
		}
		if spec.InsecureSkipTLSVerify {
			errs = append(errs, field.Invalid(insecure, true, "local APIServices may not have insecureSkipTLSVerify"))
		}
		return errs
	}
	at := check.Spec.Child("service")
	if spec.Service.Namespace == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	if spec.Service.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if p := spec.Service.Port; p != nil {
		if wrong := utilvalidation.IsValidPortNum(int(*p)); wrong != nil {
			errs = append(errs, field.Invalid(at.Child("port"), *p, "port is not valid: "+strings.Join(wrong, ", ")))
		}
	}
	if spec.InsecureSkipTLSVerify && len(spec.CABundle) > 0 {
		errs = append(errs, field.Invalid(insecure, true, "may not be true if caBundle is present"))
	}
	return errs
}

func validateStatus(s, old *apiregistrationv1.APIService) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta, check.Metadata)
	for i, c := range s.Status.Conditions {
		errs = append(errs, check.OneOf(c.Status, []apiregistrationv1.ConditionStatus{
			apiregistrationv1.ConditionTrue, apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown,
		}, check.Status.Child("conditions").Index(i).Child("status"))...)
	}
	return errs
}
