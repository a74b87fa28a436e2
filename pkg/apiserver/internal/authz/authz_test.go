package authz

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage/stagetest"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/tokens"
	"github.com/minikctl/minikctl/pkg/internal/golden"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

// known returns an authenticated user, as package authn does.
func known(name string, groups ...string) user.Info {
	if ns, _, ok := tokens.SplitUsername(name); ok {
		groups = append(groups, tokens.Groups(ns)...)
	}
	return &user.DefaultInfo{Name: name, Groups: append(groups, user.AllAuthenticated)}
}

var anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// attributes parses attributes from "VERB GROUP:RESOURCE/SUB NAMESPACE/NAME" or "VERB /path". The core group is "".
func attributes(info user.Info, line string) *stage.Attributes {
	words := strings.Fields(line)
	a := &stage.Attributes{User: info, Verb: words[0]}
	if strings.HasPrefix(words[1], "/") {
		a.Path = words[1]
		return a
	}
	group, resource, _ := strings.Cut(words[1], ":")
	resource, a.Subresource, _ = strings.Cut(resource, "/")
	a.GVR = schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
	if len(words) > 2 {
		a.Namespace, a.Name, _ = strings.Cut(words[2], "/")
	}
	return a
}

func TestMessages(t *testing.T) {
	alice := known("alice")
	for _, c := range []struct {
		info user.Info
		line string
		want string
	}{
		{alice, "list :pods default/", `pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"`},
		{alice, "delete :pods default/x", `pods "x" is forbidden: User "alice" cannot delete resource "pods" in API group "" in the namespace "default"`},
		{alice, "list :nodes", `nodes is forbidden: User "alice" cannot list resource "nodes" in API group "" at the cluster scope`},
		{alice, "get :nodes /n", `nodes "n" is forbidden: User "alice" cannot get resource "nodes" in API group "" at the cluster scope`},
		{alice, "get :pods/log ns/x", `pods "x" is forbidden: User "alice" cannot get resource "pods/log" in API group "" in the namespace "ns"`},
		{alice, "update apps:deployments/scale ns/x", `deployments.apps "x" is forbidden: User "alice" cannot update resource "deployments/scale" in API group "apps" in the namespace "ns"`},
		{anonymous, "get /", `forbidden: User "system:anonymous" cannot get path "/"`},
		{alice, "get /metrics", `forbidden: User "alice" cannot get path "/metrics"`},
		{known("<b>"), "list :pods", `pods is forbidden: User "&lt;b&gt;" cannot list resource "pods" in API group "" at the cluster scope`},
		{nil, "list :pods", `pods is forbidden: User "" cannot list resource "pods" in API group "" at the cluster scope`},
	} {
		err := Check(t.Context(), New(stagetest.NewReader(), feature.Gates{}, unchanged), attributes(c.info, c.line))
		if err == nil || err.Error() != c.want || !apierrors.IsForbidden(err) {
			t.Errorf("%s: got %v, want %s", c.line, err, c.want)
		}
	}
}

// TestRecordedRefusals compares the messages of forbidden requests with recorded ones of kube-apiserver.
func TestRecordedRefusals(t *testing.T) { golden.Run(t, testRecordedRefusals) }

func testRecordedRefusals(t *testing.T, recordings golden.Recordings) {
	raw, err := os.ReadFile(filepath.Join(recordings.Dir, "flows", "rbac-and-reviews.json"))
	if err != nil {
		t.Fatal(err)
	}
	var flow struct {
		Steps []struct {
			As, Method, Path, Impersonate string
			Status                        int
			Response                      struct{ Message string }
		}
	}
	if err := json.Unmarshal(raw, &flow); err != nil {
		t.Fatal(err)
	}
	verbs := map[string]string{"POST": "create", "DELETE": "delete", "PUT": "update", "PATCH": "patch"}
	users := map[string]user.Info{"alice": known("alice", "developers"), "bob": known("bob"), "": known("admin", user.SystemPrivilegedGroup)}
	checked := 0
	for _, s := range flow.Steps {
		if s.Status != 403 || s.As != "" && s.Impersonate != "" {
			continue
		}
		a := &stage.Attributes{User: users[s.As], Verb: verbs[s.Method], Path: s.Path}
		if s.Impersonate != "" {
			a.User = known(s.Impersonate)
		}
		parts := strings.Split(strings.TrimPrefix(s.Path, "/"), "/")
		if parts[0] == "api" || parts[0] == "apis" {
			if parts[0] == "apis" {
				a.GVR.Group, parts = parts[1], parts[1:]
			}
			parts = parts[2:]
			if parts[0] == "namespaces" && len(parts) > 2 {
				a.Namespace, parts = parts[1], parts[2:]
			}
			a.GVR.Resource = parts[0]
			if len(parts) > 1 {
				a.Name = parts[1]
			}
		}
		if s.Method == "GET" {
			a.Verb = "get"
			if a.GVR.Resource != "" && a.Name == "" {
				a.Verb = "list"
			}
		}
		checked++
		if err := Check(t.Context(), New(stagetest.NewReader(), feature.Gates{}, unchanged), a); err == nil || err.Error() != s.Response.Message {
			t.Errorf("%s %s: got %v, want %s", s.Method, s.Path, err, s.Response.Message)
		}
	}
	if checked < 8 {
		t.Errorf("only %d recordings were found", checked)
	}
}

func TestRoles(t *testing.T) {
	master := known("admin", user.SystemPrivilegedGroup)
	scheduler := known(user.KubeScheduler)
	manager := known(user.KubeControllerManager)
	account := func(name string) user.Info { return known(tokens.Username("kube-system", name)) }
	for _, c := range []struct {
		info user.Info
		line string
		want bool
	}{
		{master, "delete any:thing x/y", true},
		{master, "post /anything", true},
		{anonymous, "get /healthz", true},
		{anonymous, "get /livez", true},
		{anonymous, "get /readyz", true},
		{anonymous, "get /version", true},
		{anonymous, "get /version/", true},
		{anonymous, "post /version", false},
		{anonymous, "get /healthz/etcd", false},
		{anonymous, "get /api", false},
		{anonymous, "get /metrics", false},
		{anonymous, "list :pods", false},
		{known("alice"), "get /api", true},
		{known("alice"), "get /apis/apps/v1", true},
		{known("alice"), "get /openapi/v3/apis/apps/v1", true},
		{known("alice"), "get /apisx", false},
		{known("alice"), "get /metrics", false},
		{known("alice"), "create authorization.k8s.io:selfsubjectaccessreviews", true},
		{known("alice"), "create authorization.k8s.io:subjectaccessreviews", false},
		{known("alice"), "get :pods ns/x", false},
		{known("prometheus", user.MonitoringGroup), "get /metrics", true},
		{known("prometheus", user.MonitoringGroup), "get /livez/ping", true},
		{known(tokens.Username("ns", "x")), "get /openid/v1/jwks", true},
		{known(tokens.Username("ns", "x")), "get :pods ns/x", false},

		{scheduler, "watch :pods", true},
		{scheduler, "watch :nodes", true},
		{scheduler, "create :pods/binding ns/p", true},
		{scheduler, "create :bindings ns/", true},
		{scheduler, "patch :pods/status ns/p", true},
		{scheduler, "delete :pods ns/p", true},
		{scheduler, "create :pods ns/", false},
		{scheduler, "update :nodes /n", false},
		{scheduler, "get :secrets ns/s", false},
		{scheduler, "create events.k8s.io:events ns/", true},
		{scheduler, "patch :events ns/e", true},
		{scheduler, "update coordination.k8s.io:leases kube-system/kube-scheduler", true},
		{scheduler, "update coordination.k8s.io:leases kube-node-lease/n", false},
		{scheduler, "create minikctl.dev:decisions ns/", true},
		{scheduler, "list minikctl.dev:decisions ns/", false},
		{scheduler, "create minikctl.dev:schedulerconfigs", true},
		{scheduler, "list storage.k8s.io:csinodes", true},
		{scheduler, "update resource.k8s.io:resourceclaims/status ns/c", true},
		{scheduler, "update :persistentvolumeclaims ns/c", true},

		{manager, "watch any:thing", true},
		{manager, "create :serviceaccounts/token ns/x", true},
		{manager, "create :pods ns/", false},
		{manager, "update coordination.k8s.io:leases kube-system/x", true},
		{manager, "update coordination.k8s.io:leases other/x", false},

		{account("deployment-controller"), "create apps:replicasets ns/", true},
		{account("deployment-controller"), "update apps:deployments/status ns/d", true},
		{account("deployment-controller"), "create :pods ns/", false},
		{account("replicaset-controller"), "create :pods ns/", true},
		{account("replicaset-controller"), "delete :pods ns/p", true},
		{account("replicaset-controller"), "update apps:replicasets/status ns/r", true},
		{account("replicaset-controller"), "delete apps:replicasets ns/r", false},
		{account("generic-garbage-collector"), "delete any:thing ns/x", true},
		{account("generic-garbage-collector"), "create any:thing ns/", false},
		{account("namespace-controller"), "deletecollection any:thing ns/", true},
		{account("namespace-controller"), "update :namespaces/finalize /ns", true},
		{account("service-account-controller"), "create :serviceaccounts ns/", true},
		{account("root-ca-cert-publisher"), "create :configmaps ns/", true},
		{account("node-controller"), "update :nodes /n", true},
		{account("node-controller"), "update :nodes/status /n", true},
		{account("node-controller"), "delete :pods ns/p", true},
		{account("horizontal-pod-autoscaler"), "update apps:deployments/scale ns/d", true},
		{account("horizontal-pod-autoscaler"), "update apps:deployments ns/d", false},
		{account("endpointslice-controller"), "create discovery.k8s.io:endpointslices ns/", true},
		{account("endpointslice-controller"), "create events.k8s.io:events ns/", true},
		{known(tokens.Username("default", "replicaset-controller")), "create :pods ns/", false},
	} {
		err := Check(t.Context(), New(stagetest.NewReader(), feature.Gates{}, unchanged), attributes(c.info, c.line))
		if (err == nil) != c.want {
			t.Errorf("%s: %s: allowed %v, want %v", c.info.GetName(), c.line, err == nil, c.want)
		}
	}
}

func TestReasonNamesTheBinding(t *testing.T) {
	z := Rules{builtin(feature.Gates{})}
	for line, want := range map[string]string{
		"watch :nodes": `RBAC: allowed by ClusterRoleBinding "system:kube-scheduler" of ClusterRole "system:kube-scheduler" to User "system:kube-scheduler"`,
		"get /api":     `RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated"`,
		"update coordination.k8s.io:leasecandidates kube-system/x": `RBAC: allowed by ClusterRoleBinding "system:kube-scheduler" of ClusterRole "system:kube-scheduler" to User "system:kube-scheduler"`,
		"update coordination.k8s.io:leases kube-system/x":          `RBAC: allowed by RoleBinding "system::leader-locking-kube-scheduler/kube-system" of Role "system::leader-locking-kube-scheduler" to User "system:kube-scheduler"`,
	} {
		if _, got, _ := z.Authorize(t.Context(), attributes(known(user.KubeScheduler), line)); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

func TestRuleMatching(t *testing.T) {
	for _, c := range []struct {
		rule rbacv1.PolicyRule
		line string
		want bool
	}{
		{on("get", "core", "pods"), "get :pods ns/x", true},
		{on("get", "core", "pods"), "get :pods/log ns/x", false},
		{on("get", "core", "pods/log"), "get :pods/log ns/x", true},
		{on("get", "core", "pods/log"), "get :pods ns/x", false},
		{on("get", "core", "*/log"), "get :pods/log ns/x", true},
		{on("get", "core", "*/log"), "get :pods ns/x", false},
		{on("get", "core", "pods/*"), "get :pods/log ns/x", false},
		{on("get", "core", "*"), "get :pods/log ns/x", true},
		{on("*", "core", "pods"), "delete :pods ns/x", true},
		{on("get", "apps", "pods"), "get :pods ns/x", false},
		{on("get", "*", "pods"), "get apps:pods ns/x", true},
		{named("get", "core", "pods", "x y"), "get :pods ns/y", true},
		{named("get", "core", "pods", "x y"), "get :pods ns/z", false},
		{named("list", "core", "pods", "x"), "list :pods ns/", false},
		{on("get", "*", "*"), "get /api", false},
		{paths("get", "/a"), "get /a", true},
		{paths("get", "/a"), "get /a/b", false},
		{paths("get", "/a/*"), "get /a/b/c", true},
		{paths("get", "/a/*"), "get /a", false},
		{paths("get", "*"), "get /a", true},
		{paths("get", "*"), "get :pods ns/x", false},
	} {
		if got := Allowed([]rbacv1.PolicyRule{c.rule}, attributes(known("x"), c.line)); got != c.want {
			t.Errorf("%v: %s: %v", c.rule, c.line, got)
		}
	}
}

func TestGrantInNamespace(t *testing.T) {
	x := NewIndex()
	grant := Grant{Namespace: "a", Rules: []rbacv1.PolicyRule{on("*", "*", "*"), paths("*", "*")}}
	x.Add(rbacv1.Subject{Kind: rbacv1.UserKind, Name: "alice"}, "a", grant)
	x.Add(rbacv1.Subject{Kind: rbacv1.GroupKind, Name: "dev"}, "a", grant)
	x.Add(rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "sa"}, "a", grant)
	for _, info := range []user.Info{known("alice"), known("bob", "dev"), known(tokens.Username("a", "sa"))} {
		for line, want := range map[string]bool{"get :pods a/x": true, "get :pods b/x": false, "list :pods": false, "get /api": false} {
			d, _, _ := Rules{x}.Authorize(t.Context(), attributes(info, line))
			if (d == stage.Allow) != want {
				t.Errorf("%s: %s: %v", info.GetName(), line, d)
			}
		}
	}
	if d, _, _ := (Rules{x}).Authorize(t.Context(), attributes(known("carol"), "get :pods a/x")); d != stage.NoOpinion {
		t.Error("another user is allowed")
	}
}

type fixed struct {
	decision stage.Decision
	reason   string
	err      error
}

func (f fixed) Authorize(context.Context, *stage.Attributes) (stage.Decision, string, error) {
	return f.decision, f.reason, f.err
}

func TestDecide(t *testing.T) {
	bad := errors.New("bad")
	for name, c := range map[string]struct {
		list   []stage.Authorizer
		want   stage.Decision
		reason string
		err    bool
	}{
		"none":           {nil, stage.NoOpinion, "", false},
		"the first":      {[]stage.Authorizer{fixed{decision: stage.Deny, reason: "no"}, fixed{decision: stage.Allow}}, stage.Deny, "no", false},
		"the second":     {[]stage.Authorizer{fixed{reason: "maybe"}, fixed{decision: stage.Allow}}, stage.Allow, "", false},
		"reasons":        {[]stage.Authorizer{fixed{reason: "a"}, fixed{reason: "b"}}, stage.NoOpinion, "a\nb", false},
		"one that fails": {[]stage.Authorizer{fixed{err: bad}, fixed{decision: stage.Allow}}, stage.Allow, "", false},
		"all fail":       {[]stage.Authorizer{fixed{err: bad}}, stage.NoOpinion, "", true},
	} {
		d, reason, err := Decide(t.Context(), c.list, attributes(known("x"), "get :pods"))
		if d != c.want || reason != c.reason || (err != nil) != c.err {
			t.Errorf("%s: %v %q %v", name, d, reason, err)
		}
	}
}

func BenchmarkDecision(b *testing.B) {
	list := New(stagetest.NewReader(), feature.Gates{}, unchanged)
	for name, a := range map[string]*stage.Attributes{
		"masters":    attributes(known("admin", user.SystemPrivilegedGroup), "create :pods ns/"),
		"scheduler":  attributes(known(user.KubeScheduler), "create :pods/binding ns/x"),
		"controller": attributes(known(tokens.Username("kube-system", "replicaset-controller")), "create :pods ns/"),
		"node":       attributes(known("system:node:n1", user.NodesGroup), "patch :pods/status ns/x"),
		"no grant":   attributes(known("alice"), "get :pods ns/x"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _, _ = Decide(b.Context(), list, a)
			}
		})
	}
}
