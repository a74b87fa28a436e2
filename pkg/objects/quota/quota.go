// Package quota computes the usage of ResourceQuotas: which of a quota's resources an object counts against, whether
// the object is within the quota's scopes, and the amounts. Admission uses it to charge quotas, and the resource quota
// controller to recalculate their status. Everything in it is pure.
package quota

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	library "k8s.io/apiserver/pkg/quota/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Evaluator computes the usage of objects of one resource.
type Evaluator struct {
	names    []corev1.ResourceName
	matching func(name corev1.ResourceName) bool // matches further names; nil: none
	inScope  func(obj objects.Object, s corev1.ScopedResourceSelectorRequirement) (bool, error)
	missing  func(obj objects.Object, required []corev1.ResourceName) error
	usage    func(obj objects.Object, now time.Time) corev1.ResourceList
	changed  func(sub string, obj, old objects.Object) bool // nil: no update changes the usage
}

// aliases are the older names of object counts, without the prefix "count/".
var aliases = map[schema.GroupResource]corev1.ResourceName{
	{Resource: "configmaps"}:             corev1.ResourceConfigMaps,
	{Resource: "secrets"}:                corev1.ResourceSecrets,
	{Resource: "resourcequotas"}:         corev1.ResourceQuotas,
	{Resource: "replicationcontrollers"}: corev1.ResourceReplicationControllers,
}

// For returns the evaluator of a resource. By default it counts objects.
func For(r schema.GroupResource) Evaluator {
	if r.Group == "" {
		switch r.Resource {
		case "pods":
			return podEvaluator
		case "services":
			return serviceEvaluator
		case "persistentvolumeclaims":
			return claimEvaluator
		}
	}
	if r == deviceClaims {
		return deviceEvaluator
	}
	names := []corev1.ResourceName{countOf(r)}
	if alias, ok := aliases[r]; ok {
		names = append(names, alias)
	}
	return Evaluator{names: names, usage: func(objects.Object, time.Time) corev1.ResourceList {
		out := make(corev1.ResourceList, len(names))
		for _, name := range names {
			out[name] = one
		}
		return out
	}}
}

// countOf returns the name of a resource's object count in quotas.
func countOf(r schema.GroupResource) corev1.ResourceName {
	return corev1.ResourceName("count/" + r.String())
}

var one = *resource.NewQuantity(1, resource.DecimalSI)

// Names returns the quota's resources that objects of the evaluator use.
func (e Evaluator) Names(of corev1.ResourceList) []corev1.ResourceName {
	var out []corev1.ResourceName
	for _, name := range library.ResourceNames(of) {
		if slices.Contains(e.names, name) || e.matching != nil && e.matching(name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Matches reports whether an object counts against a quota: by its resources and all its scopes.
func (e Evaluator) Matches(q *corev1.ResourceQuota, obj objects.Object) (bool, error) {
	if len(e.Names(q.Status.Hard)) == 0 {
		return false, nil
	}
	return e.InScopes(&q.Spec, obj)
}

// InScopes reports whether an object is within all scopes of a quota.
func (e Evaluator) InScopes(s *corev1.ResourceQuotaSpec, obj objects.Object) (bool, error) {
	for _, r := range scopes(s) {
		if e.inScope == nil {
			return false, nil
		}
		in, err := e.inScope(obj, r)
		if err != nil || !in {
			return false, err
		}
	}
	return true, nil
}

func scopes(s *corev1.ResourceQuotaSpec) []corev1.ScopedResourceSelectorRequirement {
	if len(s.Scopes) == 0 && s.ScopeSelector == nil {
		return nil
	}
	var out []corev1.ScopedResourceSelectorRequirement
	for _, scope := range s.Scopes {
		out = append(out, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if s.ScopeSelector != nil {
		out = append(out, s.ScopeSelector.MatchExpressions...)
	}
	return out
}

// Missing returns an error if an object does not set a request or limit that the quota requires.
func (e Evaluator) Missing(obj objects.Object, required []corev1.ResourceName) error {
	if e.missing == nil {
		return nil
	}
	return e.missing(obj, required)
}

// Changed reports whether an update of the object or of a subresource may change its usage.
func (e Evaluator) Changed(sub string, obj, old objects.Object) bool {
	return e.changed != nil && e.changed(sub, obj, old)
}

// Usage returns the usage of an object. A pod whose deletion grace period is over at now uses nothing.
func (e Evaluator) Usage(obj objects.Object, now time.Time) corev1.ResourceList {
	return e.usage(obj, now)
}

// Total returns the usage of all objects that match the quota.
func (e Evaluator) Total(q *corev1.ResourceQuota, all []objects.Object, now time.Time) (corev1.ResourceList, error) {
	names := e.Names(q.Spec.Hard)
	total := make(corev1.ResourceList, len(names))
	for _, name := range names {
		total[name] = resource.Quantity{Format: resource.DecimalSI}
	}
	for _, obj := range all {
		in, err := e.InScopes(&q.Spec, obj)
		if err != nil {
			return nil, fmt.Errorf("scopes of %s: %w", q.Name, err)
		}
		if in {
			total = library.Add(total, library.Mask(e.usage(obj, now), names))
		}
	}
	return total, nil
}
