package authz

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage/stagetest"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

func unchanged(context.Context) bool { return false }

func changed(context.Context) bool { return true }

// withDefaults returns a reader of the default roles and bindings.
func withDefaults() *stagetest.Reader {
	r := stagetest.NewReader()
	for _, obj := range Defaults(feature.Gates{}) {
		resource := "clusterroles"
		switch obj.(type) {
		case *rbacv1.ClusterRoleBinding:
			resource = "clusterrolebindings"
		case *rbacv1.Role:
			resource = "roles"
		case *rbacv1.RoleBinding:
			resource = "rolebindings"
		}
		r.Put(resource+"."+rbacv1.GroupName, obj)
	}
	return r
}

func roleOf(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

func bindingOf(namespace, name, kind, role string, users ...string) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}}
	for _, u := range users {
		b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: u})
	}
	return b
}

func TestStoredRoles(t *testing.T) {
	r := withDefaults()
	list := New(r, feature.Gates{}, changed)
	decide := func(info, what string) (bool, string) {
		t.Helper()
		d, reason, err := Decide(t.Context(), list, attributes(known(info), what))
		if err != nil {
			t.Fatal(err)
		}
		return d == stage.Allow, reason
	}
	if ok, _ := decide("alice", "get :pods ns/p"); ok {
		t.Error("allowed without a role")
	}
	r.Put("rolebindings.rbac.authorization.k8s.io", bindingOf("ns", "b", "Role", "reader", "alice"))
	if ok, reason := decide("alice", "get :pods ns/p"); ok || !strings.Contains(reason, `RBAC: role.rbac.authorization.k8s.io "reader" not found`) {
		t.Errorf("with a binding to no role: %v, %q", ok, reason)
	}
	r.Put("roles.rbac.authorization.k8s.io", roleOf("ns", "reader", on(read, "core", "pods")))
	if ok, reason := decide("alice", "get :pods ns/p"); !ok || reason != `RBAC: allowed by RoleBinding "b/ns" of Role "reader" to User "alice"` {
		t.Errorf("with both: %v, %q", ok, reason)
	}
	for _, what := range []string{"get :pods other/p", "delete :pods ns/p", "get :secrets ns/p"} {
		if ok, _ := decide("alice", what); ok {
			t.Errorf("allowed: %s", what)
		}
	}
	if ok, _ := decide("bob", "get :pods ns/p"); ok {
		t.Error("another user is allowed")
	}
	r.Put("rolebindings.rbac.authorization.k8s.io", bindingOf("ns", "v", "ClusterRole", "view", "bob"))
	if ok, _ := decide("bob", "get apps:deployments ns/d"); !ok {
		t.Error("the role that every cluster has does not count")
	}
}

func TestEscalation(t *testing.T) {
	r := withDefaults()
	r.Put("rolebindings.rbac.authorization.k8s.io", bindingOf("ns", "b", "Role", "admin", "alice"))
	r.Put("roles.rbac.authorization.k8s.io", roleOf("ns", "admin", on(read, "core", "pods"), on("create", rbacv1.GroupName, "roles rolebindings"), named("bind", rbacv1.GroupName, "clusterroles", "edit")))
	e := NewEscalation(New(r, feature.Gates{}, changed))
	try := func(info user.Info, resource string, obj objects.Object) error {
		a := attributes(info, "create rbac.authorization.k8s.io:"+resource+" ns/")
		return e.Mutate(t.Context(), &stage.Admission{Attributes: a, Operation: stage.Create, Object: obj})
	}
	alice := known("alice", "g")
	for name, c := range map[string]struct {
		info     user.Info
		resource string
		obj      objects.Object
		want     string
	}{
		"what one has":      {alice, "roles", roleOf("ns", "x", on("get", "core", "pods")), ""},
		"what one has not":  {alice, "roles", roleOf("ns", "x", on("get list", "core", "secrets")), `roles.rbac.authorization.k8s.io "x" is forbidden: user "alice" (groups=["g" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n" + `{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}`},
		"a role one has":    {alice, "rolebindings", bindingOf("ns", "x", "Role", "admin", "bob"), ""},
		"a greater role":    {alice, "rolebindings", bindingOf("ns", "x", "ClusterRole", "cluster-admin", "bob"), "not currently held"},
		"one that one may":  {alice, "rolebindings", bindingOf("ns", "x", "ClusterRole", "edit", "bob"), ""},
		"no such role":      {alice, "rolebindings", bindingOf("ns", "x", "Role", "gone", "bob"), `"gone" not found`},
		"a master may":      {known("root", user.SystemPrivilegedGroup), "roles", roleOf("ns", "x", on("*", "*", "*")), ""},
		"not about access":  {alice, "roles", nil, ""},
		"aggregation rules": {alice, "clusterroles", &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}, AggregationRule: &rbacv1.AggregationRule{}}, "must have cluster-admin privileges to use an aggregationRule"},
	} {
		err := try(c.info, c.resource, c.obj)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestEscalateOneRole checks that the right to escalate one role allows to update it, not to create it.
func TestEscalateOneRole(t *testing.T) {
	r := withDefaults()
	r.Put("rolebindings.rbac.authorization.k8s.io", bindingOf("ns", "b", "Role", "admin", "alice"))
	r.Put("roles.rbac.authorization.k8s.io", roleOf("ns", "admin", on("create update", rbacv1.GroupName, "roles"), named("escalate", rbacv1.GroupName, "roles", "x")))
	e := NewEscalation(New(r, feature.Gates{}, changed))
	for what, allowed := range map[string]bool{"create": false, "update": true} {
		a := attributes(known("alice"), what+" rbac.authorization.k8s.io:roles ns/x") // verbs set the name of a create
		change := &stage.Admission{Attributes: a, Object: roleOf("ns", "x", on("*", "*", "*"))}
		if err := e.Mutate(t.Context(), change); (err == nil) != allowed {
			t.Errorf("%s: %v", what, err)
		}
	}
}
