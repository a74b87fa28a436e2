// Package rbac holds the controllers of roles.
package rbac

import (
	"context"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var clusterRoles = rbacv1.SchemeGroupVersion.WithResource("clusterroles")

type roleAggregation struct {
	client client.Client
	roles  *client.Cache[*rbacv1.ClusterRole]
}

// ClusterRoleAggregation keeps the rules of ClusterRoles with an aggregation rule: the rules of all roles that it selects.
func ClusterRoleAggregation(env controller.Env) reconcile.Loop {
	r := roleAggregation{env.Client, client.CacheOf[*rbacv1.ClusterRole](env.Caches, clusterRoles)}
	return reconcile.Loop{
		Name: "clusterroleaggregation", Reconcile: r.reconcile,
		Sources: []reconcile.Source{reconcile.Map(r.roles, func(client.Change[*rbacv1.ClusterRole]) []objects.Key { return r.aggregated() })},
	}
}

// aggregated returns the keys of the roles with an aggregation rule. A change of any role may affect them.
func (r roleAggregation) aggregated() []objects.Key {
	var out []objects.Key
	for _, role := range r.roles.List("", labels.Everything()) {
		if role.AggregationRule != nil {
			out = append(out, objects.Key{Name: role.Name})
		}
	}
	return out
}

func (r roleAggregation) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	role, ok := r.roles.Get(key)
	if !ok || role.AggregationRule == nil {
		return 0, nil
	}
	rules, err := aggregate(role, r.roles.List("", labels.Everything()))
	if err != nil || equality.Semantic.DeepEqual(rules, role.Rules) {
		return 0, err
	}
	role = role.DeepCopy()
	role.Rules = rules
	_, err = r.client.Update(ctx, client.In(clusterRoles, key), role, metav1.UpdateOptions{})
	return 0, controller.IgnoreNotFound(err)
}

// aggregate returns the rules of the roles that the selectors of role match, in the order of selectors and then of names,
// without duplicates.
func aggregate(role *rbacv1.ClusterRole, all []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	var out []rbacv1.PolicyRule
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		for _, part := range all {
			if part.Name == role.Name || !selector.Matches(labels.Set(part.Labels)) {
				continue
			}
			for _, rule := range part.Rules {
				if !slices.ContainsFunc(out, func(have rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(have, rule) }) {
					out = append(out, rule)
				}
			}
		}
	}
	return out, nil
}
