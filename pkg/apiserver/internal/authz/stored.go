package authz

import (
	"context"
	"fmt"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// RBAC allows what roles and bindings allow. It uses an index of the defaults, which is compiled in, until a role or binding
// is written; then an index of the objects, which is built on the first request after a change.
type RBAC struct {
	reader   stage.Reader
	changed  func(context.Context) bool // the objects may differ from Defaults
	compiled *Index

	mu    sync.Mutex
	seen  [4]uint64 // number of changes of each resource when index was built
	index *Index    // nil: not built yet
}

func newRBAC(r stage.Reader, g feature.Gates, changed func(context.Context) bool) *RBAC {
	return &RBAC{reader: r, changed: changed, compiled: builtin(g)}
}

// Of returns the RBAC authorizer among those that New returned.
func Of(list []stage.Authorizer) *RBAC {
	for _, z := range list {
		if s, ok := z.(*RBAC); ok {
			return s
		}
	}
	return nil
}

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

// rules returns the rules that hold now; none with an error.
func (s *RBAC) rules(ctx context.Context) (Rules, error) {
	if !s.changed(ctx) {
		return Rules{s.compiled}, nil
	}
	x, err := s.current(ctx)
	if err != nil {
		return nil, err
	}
	return Rules{x}, nil
}

// current returns the index of the roles and bindings as they are now.
func (s *RBAC) current(ctx context.Context) (*Index, error) {
	var now [4]uint64
	for i, gr := range roleKinds {
		counters, err := s.reader.Counters(ctx, gr)
		if err != nil {
			return nil, fmt.Errorf("look up roles: %w", err)
		}
		now[i] = counters.Changes
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.index != nil && now == s.seen {
		return s.index, nil
	}
	x, err := s.build(ctx)
	if err != nil {
		return nil, fmt.Errorf("look up roles: %w", err)
	}
	s.seen, s.index = now, x // a change made meanwhile is seen by the next request
	return x, nil
}

func (s *RBAC) build(ctx context.Context) (*Index, error) {
	roles := map[string]map[objects.Key][]rbacv1.PolicyRule{"ClusterRole": {}, "Role": {}}
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

// shown formats a subject as reasons do.
func shown(s rbacv1.Subject, home string) string {
	if s.Kind != rbacv1.ServiceAccountKind {
		return s.Name
	}
	if s.Namespace != "" {
		home = s.Namespace
	}
	return s.Name + "/" + home
}
