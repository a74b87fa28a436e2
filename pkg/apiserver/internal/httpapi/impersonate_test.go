package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
)

func TestImpersonated(t *testing.T) {
	for _, c := range []struct {
		name   string
		header http.Header
		want   *user.DefaultInfo
		err    string
	}{
		{"nothing", http.Header{"Accept": {"x"}}, nil, ""},
		{"user", http.Header{"Impersonate-User": {"alice"}}, &user.DefaultInfo{Name: "alice"}, ""},
		{"groups and extra", http.Header{"Impersonate-User": {"alice"}, "Impersonate-Group": {"a", "b"}, "Impersonate-Extra-Acme.com%2fproject": {"x"}},
			&user.DefaultInfo{Name: "alice", Groups: []string{"a", "b"}, Extra: map[string][]string{"acme.com/project": {"x"}}}, ""},
		{"group without user", http.Header{"Impersonate-Group": {"a"}}, nil, `requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"a"}, Extra:map[string][]string(nil)} without impersonating a user name`},
	} {
		got, err := impersonated(c.header)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.err)
		}
		if err == nil && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// rights allows every user the rights in a list of "VERB GROUP:RESOURCE/SUB NAMESPACE/NAME".
type rights []string

func (z rights) Authorize(_ context.Context, a *stage.Attributes) (stage.Decision, string, error) {
	what := a.GVR.Group + ":" + a.GVR.Resource
	if a.Subresource != "" {
		what += "/" + a.Subresource
	}
	if a.GVR.Resource == "" {
		what = a.Path
	}
	if slices.Contains(z, a.Verb+" "+what+" "+a.Namespace+"/"+a.Name) {
		return stage.Allow, "", nil
	}
	return stage.NoOpinion, "", nil
}

// TestConstrainedImpersonation: the unconstrained right covers all requests. A constrained right covers a user, and another
// one covers a request as that user.
func TestConstrainedImpersonation(t *testing.T) {
	agent := &user.DefaultInfo{Name: "system:serviceaccount:ns:agent", Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}}}
	alice := &user.DefaultInfo{Name: "alice"}
	pods := &stage.Attributes{Verb: "list", Namespace: "ns", GVR: corev1.SchemeGroupVersion.WithResource("pods")}
	const auth = "authentication.k8s.io:"
	for name, c := range map[string]struct {
		info     *user.DefaultInfo
		as       user.DefaultInfo
		original *stage.Attributes
		rights   rights
		groups   string // of the impersonated user; "" when the impersonation is forbidden
		by       string // the constraint, or the error message
	}{
		"old": {alice, user.DefaultInfo{Name: "bob", UID: "1", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}}, pods,
			rights{"impersonate :users /bob", "impersonate :groups /g", "impersonate " + auth + "uids /1", "impersonate " + auth + "userextras/k /v"}, "g system:authenticated", ""},
		"old, without the extra": {alice, user.DefaultInfo{Name: "bob", Extra: map[string][]string{"k": {"v"}}}, pods, rights{"impersonate :users /bob"}, "",
			`pods is forbidden: User "alice" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "ns"`},
		"old, an account":  {alice, user.DefaultInfo{Name: "system:serviceaccount:a:b"}, pods, rights{"impersonate :serviceaccounts a/b"}, "system:serviceaccounts system:serviceaccounts:a system:authenticated", ""},
		"old, a node":      {alice, user.DefaultInfo{Name: "system:node:n1"}, pods, rights{"impersonate :users /system:node:n1"}, "system:authenticated", ""},
		"old, the masters": {alice, user.DefaultInfo{Name: "bob", Groups: []string{"system:masters"}}, pods, rights{"impersonate :users /bob", "impersonate :groups /system:masters"}, "system:masters system:authenticated", ""},
		"old, anonymous":   {alice, user.DefaultInfo{Name: "system:anonymous"}, pods, rights{"impersonate :users /system:anonymous"}, "system:unauthenticated", ""},
		"user": {alice, user.DefaultInfo{Name: "bob", Groups: []string{"g"}, Extra: map[string][]string{"a.b/k": {"v"}}}, pods,
			rights{"impersonate-on:user-info:list :pods ns/", "impersonate:user-info " + auth + "users /bob", "impersonate:user-info " + auth + "groups /g", "impersonate:user-info " + auth + "userextras/a.b/k /v"},
			"g system:authenticated", "impersonate:user-info"},
		"user, not for this": {alice, user.DefaultInfo{Name: "bob"}, pods, rights{"impersonate-on:user-info:get :pods ns/", "impersonate:user-info " + auth + "users /bob"}, "",
			`pods is forbidden: User "alice" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "ns"`},
		"user, another": {alice, user.DefaultInfo{Name: "bob"}, pods, rights{"impersonate-on:user-info:list :pods ns/"}, "",
			`users.authentication.k8s.io "bob" is forbidden: User "alice" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope`},
		"user, the masters": {alice, user.DefaultInfo{Name: "bob", Groups: []string{"system:masters"}}, pods,
			rights{"impersonate-on:user-info:list :pods ns/", "impersonate:user-info " + auth + "users /bob", "impersonate:user-info " + auth + "groups /system:masters"}, "", "impersonating the system:masters group is not allowed"},
		"user, many groups": {alice, user.DefaultInfo{Name: "bob", Groups: []string{"a", "b", "c", "d"}}, pods,
			rights{"impersonate-on:user-info:list :pods ns/", "impersonate:user-info " + auth + "users /bob", "impersonate:user-info " + auth + "groups /*"}, "a b c d system:authenticated", "impersonate:user-info"},
		"user, a bad extra": {alice, user.DefaultInfo{Name: "bob", Extra: map[string][]string{"a.b/k": {""}}}, pods,
			rights{"impersonate-on:user-info:list :pods ns/", "impersonate:user-info " + auth + "users /bob"}, "", "impersonating the empty string value in extra is not allowed"},
		"user, for a path": {alice, user.DefaultInfo{Name: "bob"}, &stage.Attributes{Verb: "get", Path: "/metrics"},
			rights{"impersonate-on:user-info:get /metrics /", "impersonate:user-info " + auth + "users /bob"}, "system:authenticated", "impersonate:user-info"},
		"account": {alice, user.DefaultInfo{Name: "system:serviceaccount:a:b"}, pods,
			rights{"impersonate-on:serviceaccount:list :pods ns/", "impersonate:serviceaccount " + auth + "serviceaccounts a/b"}, "system:serviceaccounts system:serviceaccounts:a system:authenticated", "impersonate:serviceaccount"},
		"node": {alice, user.DefaultInfo{Name: "system:node:n1"}, pods,
			rights{"impersonate-on:arbitrary-node:list :pods ns/", "impersonate:arbitrary-node " + auth + "nodes /n1"}, "system:nodes system:authenticated", "impersonate:arbitrary-node"},
		"own node": {agent, user.DefaultInfo{Name: "system:node:n1"}, pods,
			rights{"impersonate-on:associated-node:list :pods ns/", "impersonate:associated-node " + auth + "nodes /*"}, "system:nodes system:authenticated", "impersonate:associated-node"},
		"another's node": {agent, user.DefaultInfo{Name: "system:node:n2"}, pods,
			rights{"impersonate-on:associated-node:list :pods ns/", "impersonate:associated-node " + auth + "nodes /*"}, "", "cannot impersonate-on:arbitrary-node:list"},
	} {
		s := &Handler{}
		s.config.Stages.Authorizers = []stage.Authorizer{c.rights}
		original := *c.original
		original.User = c.info
		info, constraint, err := s.impersonatedBy(t.Context(), &original, &c.as)
		switch {
		case c.groups == "" && (err == nil || !strings.Contains(err.Error(), c.by)):
			t.Errorf("%s: %v, %v", name, info, err)
		case c.groups != "" && (err != nil || info.GetName() != c.as.Name || strings.Join(info.GetGroups(), " ") != c.groups || constraint != c.by):
			t.Errorf("%s: %v by %q, %v", name, info, constraint, err)
		}
	}
}
