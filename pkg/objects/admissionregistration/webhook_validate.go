package admissionregistration

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

var (
	failurePolicies = []admissionv1.FailurePolicyType{admissionv1.Fail, admissionv1.Ignore}
	matchPolicies   = []admissionv1.MatchPolicyType{admissionv1.Equivalent, admissionv1.Exact}
	reinvocations   = []admissionv1.ReinvocationPolicyType{admissionv1.IfNeededReinvocationPolicy, admissionv1.NeverReinvocationPolicy}
	sideEffects     = []admissionv1.SideEffectClass{admissionv1.SideEffectClassNone, admissionv1.SideEffectClassNoneOnDryRun,
		admissionv1.SideEffectClassSome, admissionv1.SideEffectClassUnknown}
	noSideEffects  = sideEffects[:2]
	reviewVersions = []string{"v1", "v1beta1"}
)

// tolerated lists what an update may keep although it would be invalid in a new configuration.
type tolerated struct {
	conditions, effects, versions, names, selectors bool
	known                                           func(expression string) bool // reports whether the old object has it; nil: none
	params                                          bool                         // expressions may use params
	work                                            *check.Work                  // of compiling expressions
}

// validateMeta checks the metadata. Finalizers of this group may have any name.
func validateMeta(obj metav1.Object) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(obj, false, apivalidation.NameIsDNSSubdomain, check.Metadata)
}

func validateValidating(c, old *admissionv1.ValidatingWebhookConfiguration) field.ErrorList {
	return validateWebhooks(validateMeta(c), AsMutating(c), AsMutating(old))
}

func validateMutating(c, old *admissionv1.MutatingWebhookConfiguration) field.ErrorList {
	var before []admissionv1.MutatingWebhook
	if old != nil {
		before = old.Webhooks
	}
	return validateWebhooks(validateMeta(c), c.Webhooks, before)
}

// AsMutating converts validating webhooks to mutating ones, which have all their fields.
func AsMutating(c *admissionv1.ValidatingWebhookConfiguration) []admissionv1.MutatingWebhook {
	if c == nil {
		return nil
	}
	out := make([]admissionv1.MutatingWebhook, len(c.Webhooks))
	for i, w := range c.Webhooks {
		out[i] = admissionv1.MutatingWebhook{Name: w.Name, ClientConfig: w.ClientConfig, Rules: w.Rules, FailurePolicy: w.FailurePolicy,
			MatchPolicy: w.MatchPolicy, NamespaceSelector: w.NamespaceSelector, ObjectSelector: w.ObjectSelector, SideEffects: w.SideEffects,
			TimeoutSeconds: w.TimeoutSeconds, AdmissionReviewVersions: w.AdmissionReviewVersions, MatchConditions: w.MatchConditions}
	}
	return out
}

func validateWebhooks(errs field.ErrorList, hooks, old []admissionv1.MutatingWebhook) field.ErrorList {
	l := leftOf(hooks, old)
	seen := map[string]bool{}
	for i := range hooks {
		h, at := &hooks[i], field.NewPath("webhooks").Index(i)
		errs = append(errs, validateWebhook(h, l, at)...)
		errs = append(errs, validateReviewVersions(h.AdmissionReviewVersions, l, at.Child("admissionReviewVersions"))...)
		if seen[h.Name] && !l.names {
			errs = append(errs, field.Duplicate(at.Child("name"), h.Name))
		}
		seen[h.Name] = h.Name != ""
	}
	return errs
}

// leftOf returns what an update may keep.
func leftOf(hooks, old []admissionv1.MutatingWebhook) tolerated {
	if old == nil {
		return tolerated{work: check.NewWork()}
	}
	l := tolerated{conditions: len(hooks) == len(old), work: check.NewWork()}
	expressions, names := map[string]bool{}, map[string]bool{}
	for i := range old {
		h := &old[i]
		l.conditions = l.conditions && equality.Semantic.DeepEqual(hooks[i].MatchConditions, h.MatchConditions)
		l.effects = l.effects || h.SideEffects == nil || !slices.Contains(noSideEffects, *h.SideEffects)
		l.versions = l.versions || len(h.AdmissionReviewVersions) > 0 && !accepts(h.AdmissionReviewVersions)
		l.names = l.names || names[h.Name]
		names[h.Name] = true
		for _, s := range []*metav1.LabelSelector{h.NamespaceSelector, h.ObjectSelector} {
			l.selectors = l.selectors || s != nil && len(check.Selector(s, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
		}
		for _, c := range h.MatchConditions {
			expressions[c.Expression] = true
		}
	}
	l.known = func(e string) bool { return expressions[e] }
	return l
}

func accepts(versions []string) bool {
	return slices.ContainsFunc(versions, func(v string) bool { return slices.Contains(reviewVersions, v) })
}

func validateWebhook(h *admissionv1.MutatingWebhook, l tolerated, at *field.Path) field.ErrorList {
	errs := utilvalidation.IsFullyQualifiedName(at.Child("name"), h.Name)
	for i := range h.Rules {
		errs = append(errs, validateRule(&h.Rules[i], at.Child("rules").Index(i))...)
	}
	errs = append(errs, supported(h.FailurePolicy, failurePolicies, at.Child("failurePolicy"))...)
	errs = append(errs, supported(h.MatchPolicy, matchPolicies, at.Child("matchPolicy"))...)
	allowed := noSideEffects
	if l.effects {
		allowed = sideEffects
	}
	if h.SideEffects == nil {
		errs = append(errs, field.Required(at.Child("sideEffects"), "must specify one of "+listOf(allowed)))
	}
	errs = append(errs, supported(h.SideEffects, allowed, at.Child("sideEffects"))...)
	if t := h.TimeoutSeconds; t != nil && (*t > 30 || *t < 1) {
		errs = append(errs, field.Invalid(at.Child("timeoutSeconds"), *t, "the timeout value must be between 1 and 30 seconds"))
	}
	errs = append(errs, validateSelector(h.NamespaceSelector, l.selectors, at.Child("namespaceSelector"))...)
	errs = append(errs, validateSelector(h.ObjectSelector, l.selectors, at.Child("objectSelector"))...)
	errs = append(errs, supported(h.ReinvocationPolicy, reinvocations, at.Child("reinvocationPolicy"))...)
	errs = append(errs, validateClientConfig(&h.ClientConfig, at.Child("clientConfig"))...)
	if !l.conditions {
		errs = append(errs, validateConditions(h.MatchConditions, l, at.Child("matchConditions"))...)
	}
	return errs
}

// supported checks an optional field with a fixed set of values.
func supported[S ~string](value *S, allowed []S, at *field.Path) field.ErrorList {
	if value == nil || slices.Contains(allowed, *value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, *value, allowed)}
}

func listOf[S ~string](all []S) string {
	var parts []string
	for _, s := range all {
		parts = append(parts, string(s))
	}
	return strings.Join(parts, ", ")
}

func validateSelector(s *metav1.LabelSelector, loose bool, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	return check.Selector(s, metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: loose}, at)
}

func validateReviewVersions(versions []string, l tolerated, at *field.Path) field.ErrorList {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(at, "must specify one of "+listOf(reviewVersions))}
	}
	var errs field.ErrorList
	var seen check.Seen[string]
	for i, v := range versions {
		if seen.Again(v) {
			errs = append(errs, field.Invalid(at.Index(i), v, "duplicate version"))
			continue
		}
		errs = append(errs, check.Invalid(at.Index(i), v, utilvalidation.IsDNS1035Label(v))...)
	}
	if !l.versions && !accepts(versions) {
		errs = append(errs, field.Invalid(at, versions, "must include at least one of "+listOf(reviewVersions)))
	}
	return errs
}

func validateClientConfig(c *admissionv1.WebhookClientConfig, at *field.Path) field.ErrorList {
	switch {
	case (c.URL == nil) == (c.Service == nil):
		return field.ErrorList{field.Required(at, "exactly one of url or service is required")}
	case c.URL != nil:
		return validateURL(*c.URL, at.Child("url"))
	}
	return validateService(c.Service, at.Child("service"))
}

func validateURL(text string, at *field.Path) field.ErrorList {
	const form = "; desired format: https://host[/path]"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(at, "url must be a valid URL: "+err.Error()+form)}
	}
	var errs field.ErrorList
	if u.Scheme != "https" {
		errs = append(errs, field.Invalid(at, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		errs = append(errs, field.Invalid(at, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		errs = append(errs, field.Invalid(at, u.User.String(), "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		errs = append(errs, field.Invalid(at, u.Fragment, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		errs = append(errs, field.Invalid(at, u.RawQuery, "query parameters are not permitted in the URL"))
	}
	return errs
}

// validateService checks a reference to a Service. The errors of a missing name and namespace name each other's field, as in
// Kubernetes.
func validateService(s *admissionv1.ServiceReference, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Namespace == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("namespace"), ""))
	}
	port := int32(0)
	if s.Port != nil {
		port = *s.Port
	}
	if wrong := utilvalidation.IsValidPortNum(int(port)); wrong != nil {
		errs = append(errs, field.Invalid(at.Child("port"), port, "port is not valid: "+strings.Join(wrong, ", ")))
	}
	if s.Path == nil || *s.Path == "" || *s.Path == "/" {
		return errs
	}
	return append(errs, validateServicePath(*s.Path, at.Child("path"))...)
}

func validateServicePath(p string, at *field.Path) field.ErrorList {
	if p == "//" {
		return field.ErrorList{field.Invalid(at, p, "segment[0] may not be empty")}
	}
	var errs field.ErrorList
	if !strings.HasPrefix(p, "/") {
		errs = append(errs, field.Invalid(at, p, "must start with a '/'"))
	}
	for i, step := range strings.Split(strings.TrimSuffix(p[1:], "/"), "/") {
		if step == "" {
			errs = append(errs, field.Invalid(at, p, fmt.Sprintf("segment[%d] may not be empty", i)))
			continue
		}
		for _, wrong := range utilvalidation.IsDNS1123Subdomain(step) {
			errs = append(errs, field.Invalid(at, p, fmt.Sprintf("segment[%d]: %v", i, wrong)))
		}
	}
	return errs
}
