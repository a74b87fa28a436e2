package authz

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// RBAC allows what roles and bindings allow: those that are stored, and, until they are among them, those that every
// cluster begins with. The stored ones are indexed by subject when they are first asked, and again after any of them has
// changed; a cluster without bindings costs nothing.
type RBAC struct {
	reader   stage.Reader
	compiled *Index
	settled  atomic.Bool // the compiled ones are stored

	mu    sync.Mutex
	seen  seen
	index *Index
}

// seen is what an index shows.
type seen struct {
	changes [4]uint64 // of the kinds
	settled bool
}

func newRBAC(r stage.Reader) *RBAC {
	return &RBAC{reader: r, compiled: builtin(), index: NewIndex()}
}

// Of returns the RBAC among authorizers that New made.
func Of(list []stage.Authorizer) *RBAC {
	for _, z := range list {
		if s, ok := z.(*RBAC); ok {
			return s
		}
	}
	return nil
}

// Settle tells that what Defaults returns is stored: from now on the stored roles and bindings rule alone, and whoever
// deletes one has revoked it.
func (s *RBAC) Settle() { s.settled.Store(true) }

// Settled reports whether Settle has been called.
func (s *RBAC) Settled() bool { return s.settled.Load() }

var (
	roleKinds = [4]schema.GroupResource{
		{Group: rbacv1.GroupName, Resource: "clusterroles"}, {Group: rbacv1.GroupName, Resource: "clusterrolebindings"},
		{Group: rbacv1.GroupName, Resource: "roles"}, {Group: rbacv1.GroupName, Resource: "rolebindings"},
	}
	clusterRoleKind, clusterBindingKind, roleKind, bindingKind = roleKinds[0], roleKinds[1], roleKinds[2], roleKinds[3]
)

// Authorize implements stage.Authorizer.
func (s *RBAC) Authorize(ctx context.Context, a *stage.Attributes) (stage.Decision, string, error) {
	rules, err := s.rules(ctx)
	d, reason, _ := rules.Authorize(ctx, a)
	if d == stage.Allow {
		return d, reason, nil
	}
	return d, reason, err
}

// rules returns all that holds now; with an error, what is known of it.
func (s *RBAC) rules(ctx context.Context) (Rules, error) {
	settled := s.settled.Load() // before looking at what is stored, so that nothing is missed in between
	var out Rules
	if !settled {
		out = Rules{s.compiled}
	}
	x, err := s.current(ctx, settled)
	if err != nil {
		return out, err
	}
	return append(out, x), nil
}

// current returns the index of what is stored now.
func (s *RBAC) current(ctx context.Context, settled bool) (*Index, error) {
	now := seen{settled: settled}
	for i, gr := range roleKinds {
		state, err := s.reader.State(ctx, gr)
		if err != nil {
			return nil, fmt.Errorf("look up roles: %w", err)
		}
		now.changes[i] = state.Changes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now == s.seen {
		return s.index, nil
	}
	x, err := s.build(ctx, settled)
	if err != nil {
		return nil, fmt.Errorf("look up roles: %w", err)
	}
	s.seen, s.index = now, x // what changed meanwhile is seen the next time
	return x, nil
}

func (s *RBAC) build(ctx context.Context, settled bool) (*Index, error) {
	roles := map[string]map[objects.Key][]rbacv1.PolicyRule{"ClusterRole": {}, "Role": {}}
	if !settled {
		roles["ClusterRole"] = builtinRules()
	}
	for kind, gr := range map[string]schema.GroupResource{"ClusterRole": clusterRoleKind, "Role": roleKind} {
		list, err := s.reader.List(ctx, gr, "")
		if err != nil {
			return nil, err
		}
		for _, obj := range list {
			key := objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
			switch r := obj.(type) {
			case *rbacv1.ClusterRole:
				roles[kind][key] = r.Rules
			case *rbacv1.Role:
				roles[kind][key] = r.Rules
			}
		}
	}
	x := NewIndex()
	for _, gr := range []schema.GroupResource{clusterBindingKind, bindingKind} {
		list, err := s.reader.List(ctx, gr, "")
		if err != nil {
			return nil, err
		}
		for _, obj := range list {
			switch b := obj.(type) {
			case *rbacv1.ClusterRoleBinding:
				bindStored(x, "ClusterRoleBinding", objects.Key{Name: b.Name}, b.RoleRef, b.Subjects, roles)
			case *rbacv1.RoleBinding:
				bindStored(x, "RoleBinding", objects.Key{Namespace: b.Namespace, Name: b.Name}, b.RoleRef, b.Subjects, roles)
			}
		}
	}
	return x, nil
}

func bindStored(x *Index, kind string, binding objects.Key, ref rbacv1.RoleRef, subjects []rbacv1.Subject, roles map[string]map[objects.Key][]rbacv1.PolicyRule) {
	role := objects.Key{Name: ref.Name}
	if ref.Kind == "Role" {
		role.Namespace = binding.Namespace
	}
	g := Grant{Namespace: binding.Namespace}
	rules, ok := roles[ref.Kind][role]
	if g.Rules = rules; !ok {
		resource := map[string]string{"ClusterRole": "clusterrole", "Role": "role"}[ref.Kind]
		g.Missing = fmt.Errorf("%s.%s %q not found", resource, rbacv1.GroupName, ref.Name)
	}
	name := binding.Name
	if binding.Namespace != "" {
		name += "/" + binding.Namespace
	}
	for _, to := range subjects {
		g.Reason = fmt.Sprintf("RBAC: allowed by %s %q of %s %q to %s %q", kind, name, ref.Kind, ref.Name, to.Kind, shown(to, binding.Namespace))
		x.Add(to, binding.Namespace, g)
	}
}

// shown is how reasons name a subject.
func shown(s rbacv1.Subject, home string) string {
	if s.Kind != rbacv1.ServiceAccountKind {
		return s.Name
	}
	if s.Namespace != "" {
		home = s.Namespace
	}
	return s.Name + "/" + home
}

// builtinRules are the rules of the ClusterRoles that every cluster begins with, to which bindings may refer.
func builtinRules() map[objects.Key][]rbacv1.PolicyRule {
	out := map[objects.Key][]rbacv1.PolicyRule{}
	for _, r := range allClusterRoles() {
		out[objects.Key{Name: r.name}] = r.rules
	}
	return out
}
