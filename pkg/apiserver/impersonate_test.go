package apiserver

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
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
		{"group without user", http.Header{"Impersonate-Group": {"a"}}, nil, "without impersonating a user"},
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

func TestImpersonations(t *testing.T) {
	as := &user.DefaultInfo{Name: "system:serviceaccount:kube-system:gc", Groups: []string{"g"}, UID: "u", Extra: map[string][]string{"k": {"v"}}}
	var got []string
	for _, a := range impersonations(&user.DefaultInfo{Name: "admin"}, as) {
		got = append(got, a.GVR.Resource+"/"+a.Namespace+"/"+a.Name)
	}
	if want := "serviceaccounts/kube-system/gc groups//g uids//u userextras//v"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
