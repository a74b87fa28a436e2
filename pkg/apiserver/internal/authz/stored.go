package authz

import (
	"context"
	"fmt"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// stored allows what the cluster's own roles and bindings allow. They are indexed by subject when they are first asked,
// and again after any of them has changed; a cluster without bindings costs nothing.
type stored struct {
	reader stage.Reader

	mu    sync.Mutex
	seen  [4]uint64 // the changes of kinds that index shows
	index *Index
}

func newStored(r stage.Reader) *stored { return &stored{reader: r, index: NewIndex()} }

var (
	roleKinds = [4]schema.GroupResource{
		{Group: rbacv1.GroupName, Resource: "clusterroles"}, {Group: rbacv1.GroupName, Resource: "clusterrolebindings"},
		{Group: rbacv1.GroupName, Resource: "roles"}, {Group: rbacv1.GroupName, Resource: "rolebindings"},
	}
	clusterRoleKind, clusterBindingKind, roleKind, bindingKind = roleKinds[0], roleKinds[1], roleKinds[2], roleKinds[3]
)

// Authorize implements stage.Authorizer.
func (s *stored) Authorize(ctx context.Context, a *stage.Attributes) (stage.Decision, string, error) {
	x, err := s.current(ctx)
	if err != nil {
		return stage.NoOpinion, "", err
	}
	return Rules{x}.Authorize(ctx, a)
}

// current returns the index of what is stored now.
func (s *stored) current(ctx context.Context) (*Index, error) {
	var now [4]uint64
	for i, gr := range roleKinds {
		state, err := s.reader.State(ctx, gr)
		if err != nil {
			return nil, fmt.Errorf("look up roles: %w", err)
		}
		now[i] = state.Changes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now == s.seen {
		return s.index, nil
	}
	x, err := s.build(ctx)
	if err != nil {
		return nil, fmt.Errorf("look up roles: %w", err)
	}
	s.seen, s.index = now, x // what changed meanwhile is seen the next time
	return x, nil
}

func (s *stored) build(ctx context.Context) (*Index, error) {
	roles := map[string]map[objects.Key][]rbacv1.PolicyRule{"ClusterRole": builtinRules(), "Role": {}}
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
