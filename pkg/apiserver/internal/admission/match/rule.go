package match

import (
	"context"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

// Criteria are the rules and selectors of a webhook, policy or binding.
type Criteria struct {
	rules, exclude      []admissionv1.NamedRuleWithOperations
	equivalent          bool
	namespaces, objects labels.Selector
	err                 error // of parsing the selectors
}

// NewCriteria returns the criteria of a policy or binding. A nil m matches everything.
func NewCriteria(m *admissionv1.MatchResources) *Criteria {
	if m == nil {
		m = &admissionv1.MatchResources{}
	}
	c := &Criteria{rules: m.ResourceRules, exclude: m.ExcludeResourceRules, equivalent: m.MatchPolicy == nil || *m.MatchPolicy == admissionv1.Equivalent}
	c.namespaces, c.err = selector(m.NamespaceSelector)
	if c.err == nil {
		c.objects, c.err = selector(m.ObjectSelector)
	}
	return c
}

// ForWebhook returns the criteria of a webhook. Without rules it matches nothing.
func ForWebhook(rules []admissionv1.RuleWithOperations, policy *admissionv1.MatchPolicyType, namespaces, objects *metav1.LabelSelector) *Criteria {
	c := NewCriteria(&admissionv1.MatchResources{MatchPolicy: policy, NamespaceSelector: namespaces, ObjectSelector: objects})
	c.rules = make([]admissionv1.NamedRuleWithOperations, len(rules))
	for i, r := range rules {
		c.rules[i].RuleWithOperations = r
	}
	return c
}

func selector(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return labels.Everything(), nil
	}
	return metav1.LabelSelectorAsSelector(s)
}

// Match reports whether the criteria match, and in which version of the request. Selectors are checked last, so that
// a namespace that cannot be read is an error only if the rules match.
func (c *Criteria) Match(ctx context.Context, q *Request) (v Version, ok bool, err error) {
	if c.err != nil {
		return v, false, apierrors.NewInternalError(c.err)
	}
	if exempt(q) || slices.ContainsFunc(c.exclude, func(r admissionv1.NamedRuleWithOperations) bool { return c.covers(q, &r) }) {
		return v, false, nil
	}
	if v, ok = c.version(q); !ok {
		return v, false, nil
	}
	if ok, err = c.inNamespace(ctx, q); err != nil || !ok {
		return v, false, err
	}
	return v, c.ofObject(q), nil
}

// MatchAll is Match for bindings of policies, which match every request if they have no rules.
func (c *Criteria) MatchAll(ctx context.Context, q *Request) (bool, error) {
	if len(c.rules) > 0 {
		_, ok, err := c.Match(ctx, q)
		return ok, err
	}
	if c.err != nil {
		return false, apierrors.NewInternalError(c.err)
	}
	if slices.ContainsFunc(c.exclude, func(r admissionv1.NamedRuleWithOperations) bool { return c.covers(q, &r) }) {
		return false, nil
	}
	ok, err := c.inNamespace(ctx, q)
	return ok && c.ofObject(q), err
}

// exempt reports whether a request is for webhook configurations or policies, which could otherwise make themselves
// unchangeable, or is the delete of an eviction, which has been admitted as an eviction.
func exempt(q *Request) bool {
	if q.admission.Operation == stage.Delete && q.admission.Subresource != "" {
		return true
	}
	n := q.admission.Resource.Names
	if n.Group != "admissionregistration.k8s.io" {
		return false
	}
	return strings.HasSuffix(n.Kind, "WebhookConfiguration") || strings.Contains(n.Kind, "AdmissionPolicy")
}

func (c *Criteria) version(q *Request) (Version, bool) {
	for i := range c.rules {
		if covers(&c.rules[i], q, q.Requested) {
			return q.Requested, true
		}
	}
	for i := range c.rules {
		for _, v := range q.Versions[1:] {
			if c.equivalent && covers(&c.rules[i], q, v) {
				return v, true
			}
		}
	}
	return Version{}, false
}

// covers reports whether a rule matches the request in any version that the match policy admits.
func (c *Criteria) covers(q *Request, r *admissionv1.NamedRuleWithOperations) bool {
	return covers(r, q, q.Requested) || c.equivalent && slices.ContainsFunc(q.Versions[1:], func(v Version) bool { return covers(r, q, v) })
}

func covers(r *admissionv1.NamedRuleWithOperations, q *Request, v Version) bool {
	a := q.admission
	if len(r.ResourceNames) > 0 && !slices.Contains(r.ResourceNames, nameOf(q)) {
		return false
	}
	if r.Scope != nil {
		cluster := a.Namespace == "" || a.GVR.GroupResource() == namespaces
		if *r.Scope == admissionv1.NamespacedScope && cluster || *r.Scope == admissionv1.ClusterScope && !cluster {
			return false
		}
	}
	has := func(all []string, one string) bool { return slices.Contains(all, "*") || slices.Contains(all, one) }
	if !slices.Contains(r.Operations, admissionv1.OperationAll) && !slices.Contains(r.Operations, admissionv1.OperationType(a.Operation)) {
		return false
	}
	if !has(r.APIGroups, v.Resource.Group) || !has(r.APIVersions, v.Resource.Version) {
		return false
	}
	return slices.ContainsFunc(r.Resources, func(pattern string) bool {
		resource, sub, _ := strings.Cut(pattern, "/")
		return (resource == "*" || resource == v.Resource.Resource) && (sub == "*" || sub == a.Subresource)
	})
}

func nameOf(q *Request) string {
	if name := q.Name(); name != "" || q.admission.Object == nil {
		return name
	}
	return q.admission.Object.GetName()
}

func (c *Criteria) inNamespace(ctx context.Context, q *Request) (bool, error) {
	isNamespace := q.admission.GVR.GroupResource() == namespaces
	if c.namespaces.Empty() || q.admission.Namespace == "" && !isNamespace {
		return true, nil
	}
	if isNamespace && q.admission.Subresource == "" && (q.admission.Operation == stage.Create || q.admission.Operation == stage.Update) {
		return c.namespaces.Matches(labels.Set(q.admission.Object.GetLabels())), nil
	}
	ns, err := q.Namespace(ctx)
	if apierrors.IsNotFound(err) {
		return false, err
	}
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return ns != nil && c.namespaces.Matches(labels.Set(ns.Labels)), nil
}

// ofObject reports whether the object selector matches the labels of the new or the old object.
func (c *Criteria) ofObject(q *Request) bool {
	if c.objects.Empty() {
		return true
	}
	has := func(obj runtime.Object) bool {
		m, err := meta.Accessor(obj)
		return err == nil && c.objects.Matches(labels.Set(m.GetLabels()))
	}
	if sub := q.sub(); sub != nil {
		return has(sub)
	}
	return q.admission.Object != nil && has(q.admission.Object) || q.admission.Old != nil && has(q.admission.Old)
}
