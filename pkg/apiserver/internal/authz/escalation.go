package authz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Escalation rejects roles and bindings that grant rights which the user does not have. Users that may "escalate" or "bind" the
// role, and system:masters, are exempt.
//
// Source: https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
type Escalation struct {
	list []stage.Authorizer
	rbac *RBAC
}

// NewEscalation returns the stage for the authorizers that New returned.
func NewEscalation(list []stage.Authorizer) *Escalation {
	return &Escalation{list: list, rbac: Of(list)}
}

// Name implements stage.Mutator.
func (*Escalation) Name() string { return "RBACEscalation" }

// Mutate changes nothing: it is a mutator so that it runs before validation.
func (e *Escalation) Mutate(ctx context.Context, a *stage.Admission) error {
	if a.GVR.Group != rbacv1.GroupName || a.Subresource != "" || a.Object == nil || a.User == nil || slices.Contains(a.User.GetGroups(), user.SystemPrivilegedGroup) {
		return nil
	}
	if a.Old != nil && onlyGCFields(a.Object, a.Old) {
		return nil
	}
	err := e.checkGrant(ctx, a)
	if err == nil {
		return nil
	}
	return apierrors.NewForbidden(a.GVR.GroupResource(), a.Object.GetName(), err)
}

func (e *Escalation) checkGrant(ctx context.Context, a *stage.Admission) error {
	switch obj := a.Object.(type) {
	case *rbacv1.Role:
		return e.checkWrite(ctx, a, obj.Rules)
	case *rbacv1.ClusterRole:
		if aggregates(a.Object) || a.Old != nil && aggregates(a.Old) {
			all := []rbacv1.PolicyRule{on("*", "*", "*"), paths("*", "*")}
			if e.mayEscalate(ctx, a) || e.held(ctx, a, all) == nil {
				return nil
			}
			return errors.New("must have cluster-admin privileges to use an aggregationRule")
		}
		return e.checkWrite(ctx, a, obj.Rules)
	case *rbacv1.RoleBinding:
		return e.checkBind(ctx, a, obj.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		return e.checkBind(ctx, a, obj.RoleRef)
	}
	return nil
}

func aggregates(obj objects.Object) bool {
	r, ok := obj.(*rbacv1.ClusterRole)
	return ok && r.AggregationRule != nil
}

func (e *Escalation) checkWrite(ctx context.Context, a *stage.Admission, rules []rbacv1.PolicyRule) error {
	if e.mayEscalate(ctx, a) {
		return nil
	}
	return e.held(ctx, a, rules)
}

// mayEscalate reports whether the user may escalate the role that the request names. A create names none, so it requires the
// right to escalate every role.
func (e *Escalation) mayEscalate(ctx context.Context, a *stage.Admission) bool {
	name := a.Name
	if a.Verb == "create" {
		name = ""
	}
	return e.may(ctx, a, "escalate", a.GVR.Resource, name)
}

func (e *Escalation) checkBind(ctx context.Context, a *stage.Admission, ref rbacv1.RoleRef) error {
	resource := map[string]string{"ClusterRole": "clusterroles", "Role": "roles"}[ref.Kind]
	if resource != "" && e.may(ctx, a, "bind", resource, ref.Name) {
		return nil
	}
	rules, err := e.rbac.rulesOf(ctx, ref, a.Namespace)
	if err != nil {
		return err
	}
	return e.held(ctx, a, rules)
}

func (e *Escalation) may(ctx context.Context, a *stage.Admission, verb, resource, name string) bool {
	requested := *a.Attributes
	requested.Verb, requested.Name, requested.Subresource = verb, name, ""
	requested.GVR = schema.GroupVersionResource{Group: rbacv1.GroupName, Version: "*", Resource: resource}
	d, _, err := Decide(ctx, e.list, &requested)
	return err == nil && d == stage.Allow
}

// held returns an error unless the user has all the rights in rules.
func (e *Escalation) held(ctx context.Context, a *stage.Admission, rules []rbacv1.PolicyRule) error {
	own, err := e.RulesFor(ctx, a.User, a.Namespace)
	ok, missing := validation.Covers(own, rules)
	if ok {
		return nil
	}
	var lines []string
	for _, r := range compact(missing) {
		lines = append(lines, describe(&r))
	}
	slices.Sort(lines)
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		a.User.GetName(), a.User.GetGroups(), strings.Join(slices.Compact(lines), "\n"))
	if err != nil {
		text += fmt.Sprintf("; resolution errors: %v", []error{err})
	}
	return errors.New(text)
}

// RulesFor returns the user's rules in a namespace. Its error lists bindings whose roles could not be resolved.
func (e *Escalation) RulesFor(ctx context.Context, info user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	rules, err := e.rbac.rules(ctx)
	if err != nil {
		return nil, err
	}
	var out []rbacv1.PolicyRule
	var missing []error
	for _, x := range rules {
		out, missing = x.rulesFor(info, namespace, out, missing)
	}
	return out, errors.Join(missing...)
}

func (x *Index) rulesFor(info user.Info, namespace string, out []rbacv1.PolicyRule, missing []error) ([]rbacv1.PolicyRule, []error) {
	take := func(grants []Grant) {
		for i := range grants {
			g := &grants[i]
			if g.Namespace != "" && g.Namespace != namespace {
				continue
			}
			out = append(out, g.Rules...)
			if g.Missing != nil {
				missing = append(missing, g.Missing)
			}
		}
	}
	take(x.users[info.GetName()])
	for _, group := range info.GetGroups() {
		take(x.groups[group])
	}
	return out, missing
}

// rulesOf returns the rules of the role that a binding in namespace refers to.
func (s *RBAC) rulesOf(ctx context.Context, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	gr, key := clusterRoleKind, objects.Key{Name: ref.Name}
	if ref.Kind == "Role" {
		gr, key.Namespace = roleKind, namespace
	}
	obj, err := s.reader.Get(ctx, gr, key)
	if err != nil {
		return nil, err
	}
	switch r := obj.(type) {
	case *rbacv1.ClusterRole:
		return r.Rules, nil
	case *rbacv1.Role:
		return r.Rules, nil
	}
	return nil, fmt.Errorf("%T is no role", obj)
}

// onlyGCFields reports whether an update changes only what the garbage collector changes: owner references and finalizers.
func onlyGCFields(obj, old objects.Object) bool {
	was := old.DeepCopyObject().(objects.Object)
	was.SetOwnerReferences(obj.GetOwnerReferences())
	was.SetFinalizers(obj.GetFinalizers())
	was.SetResourceVersion(obj.GetResourceVersion())
	was.SetManagedFields(obj.GetManagedFields())
	return equality.Semantic.DeepEqual(was, obj)
}

// compact merges rules for the same resource into one with all their verbs.
func compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	at := map[string]int{}
	for _, r := range rules {
		if len(r.NonResourceURLs) > 0 || len(r.APIGroups) != 1 || len(r.Resources) != 1 || len(r.ResourceNames) > 1 {
			out = append(out, r)
			continue
		}
		key := fmt.Sprintf("%q", [][]string{r.APIGroups, r.Resources, r.ResourceNames})
		if i, ok := at[key]; ok {
			out[i].Verbs = append(slices.Clone(out[i].Verbs), r.Verbs...)
			continue
		}
		at[key] = len(out)
		out = append(out, r)
	}
	return out
}

// describe formats a rule as error messages do.
func describe(r *rbacv1.PolicyRule) string {
	var parts []string
	for _, f := range []struct {
		name string
		list []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs},
	} {
		if len(f.list) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", f.name, f.list))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
