package authz

import (
	"context"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// defaultOf returns the default of a type and name.
func defaultOf[T objects.Object](t *testing.T, name string) T {
	t.Helper()
	for _, o := range Defaults(feature.Gates{}) {
		if o, ok := o.(T); ok && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %s", name)
	panic("unreachable")
}

func TestReconciledRoles(t *testing.T) {
	want := defaultOf[*rbacv1.ClusterRole](t, "system:kube-dns")
	other := on("get", "core", "pods")
	for name, c := range map[string]struct {
		change func(*rbacv1.ClusterRole)
		check  func(*rbacv1.ClusterRole) bool // nil: nothing changes
	}{
		"as it is":       {func(*rbacv1.ClusterRole) {}, nil},
		"with another":   {func(r *rbacv1.ClusterRole) { r.Rules = append(r.Rules, other) }, nil},
		"in other words": {func(r *rbacv1.ClusterRole) { r.Rules = []rbacv1.PolicyRule{on("*", "*", "*")} }, nil},
		"with less": {func(r *rbacv1.ClusterRole) { r.Rules = []rbacv1.PolicyRule{other, on("list", "core", "services")} }, func(r *rbacv1.ClusterRole) bool {
			return len(r.Rules) > 2 && r.Rules[0].Resources[0] == "pods"
		}},
		"left alone":         {func(r *rbacv1.ClusterRole) { r.Rules, r.Annotations[rbacv1.AutoUpdateAnnotationKey] = nil, "false" }, nil},
		"without marks":      {func(r *rbacv1.ClusterRole) { r.Labels, r.Annotations = nil, nil }, func(r *rbacv1.ClusterRole) bool { return r.Labels[bootstrappingLabel] == rbacDefaults }},
		"with marks of ours": {func(r *rbacv1.ClusterRole) { r.Labels["a"], r.Labels[bootstrappingLabel] = "b", "c" }, nil},
		"made of others": {func(r *rbacv1.ClusterRole) { r.AggregationRule = &rbacv1.AggregationRule{} }, func(r *rbacv1.ClusterRole) bool {
			return r.AggregationRule == nil
		}},
	} {
		have := want.DeepCopy()
		c.change(have)
		was := have.DeepCopy()
		next, recreate := Reconciled(have, want)
		if recreate || (next == nil) != (c.check == nil) || next != nil && !c.check(next.(*rbacv1.ClusterRole)) {
			t.Errorf("%s: %+v, %v", name, next, recreate)
		}
		if len(have.Rules) != len(was.Rules) || len(have.Labels) != len(was.Labels) {
			t.Errorf("%s: the stored role was changed", name)
		}
	}

	edit := defaultOf[*rbacv1.ClusterRole](t, "edit")
	have := edit.DeepCopy()
	have.Rules = nil // as before its controller has run
	have.AggregationRule.ClusterRoleSelectors = []metav1.LabelSelector{{MatchLabels: map[string]string{"mine": "true"}}}
	next, _ := Reconciled(have, edit)
	if got := next.(*rbacv1.ClusterRole); len(got.AggregationRule.ClusterRoleSelectors) != 2 || len(got.Rules) != 0 {
		t.Errorf("edit: %+v", got)
	}
}

func TestReconciledBindings(t *testing.T) {
	want := defaultOf[*rbacv1.ClusterRoleBinding](t, "system:public-info-viewer")
	have := want.DeepCopy()
	mine := rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "me"}
	have.Subjects = append(have.Subjects[:1:1], mine)
	next, recreate := Reconciled(have, want)
	if got, ok := next.(*rbacv1.ClusterRoleBinding); !ok || recreate || len(got.Subjects) != 3 || !slices.Contains(got.Subjects, mine) {
		t.Errorf("with another subject: %+v, %v", next, recreate)
	}
	have.RoleRef.Name = "cluster-admin"
	if next, recreate = Reconciled(have, want); !recreate || next.(*rbacv1.ClusterRoleBinding).RoleRef.Name != want.RoleRef.Name {
		t.Errorf("of another role: %+v, %v", next, recreate)
	}
	have.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
	if next, recreate = Reconciled(have, want); next != nil || recreate {
		t.Errorf("left alone: %+v, %v", next, recreate)
	}
	role := defaultOf[*rbacv1.RoleBinding](t, "system::leader-locking-kube-scheduler")
	bound := role.DeepCopy()
	bound.Subjects = nil
	if next, _ = Reconciled(bound, role); len(next.(*rbacv1.RoleBinding).Subjects) != 2 {
		t.Errorf("in a namespace: %+v", next)
	}
	locking := defaultOf[*rbacv1.Role](t, "system::leader-locking-kube-scheduler")
	if next, _ = Reconciled(&rbacv1.Role{ObjectMeta: locking.ObjectMeta}, locking); len(next.(*rbacv1.Role).Rules) == 0 {
		t.Errorf("a role of a namespace: %+v", next)
	}
}

// TestRolesChanged deletes a default binding: its rights apply until the roles are reported as changed, and not
// afterwards.
func TestRolesChanged(t *testing.T) {
	r := withDefaults()
	written := false
	list := New(r, feature.Gates{}, func(context.Context) bool { return written })
	alice := known("alice")
	allowed := func(u user.Info, line string) bool { return Check(t.Context(), list, attributes(u, line)) == nil }
	if !allowed(alice, "get /api") || r.Lists() != 0 {
		t.Errorf("the defaults do not hold at the beginning, or were read %d times", r.Lists())
	}
	written = true
	if !allowed(alice, "get /api") {
		t.Error("the defaults do not hold as objects")
	}
	r.Delete("clusterrolebindings.rbac.authorization.k8s.io", "", "system:discovery")
	if allowed(alice, "get /api") || !allowed(alice, "create authorization.k8s.io:selfsubjectaccessreviews") || !allowed(known("x", user.SystemPrivilegedGroup), "get /api") {
		t.Error("a deleted binding still holds, or another does not")
	}
	rules, err := NewEscalation(list).RulesFor(t.Context(), alice, "default")
	if err != nil || Allowed(rules, attributes(alice, "get /api")) || !Allowed(rules, attributes(alice, "get /version")) {
		t.Errorf("the rules are %v, %v", rules, err)
	}
}
