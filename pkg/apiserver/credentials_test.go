package apiserver_test

import (
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/builtin"
)

// openPaths are the paths that need no credentials.
var openPaths = map[string]bool{"/healthz": true, "/livez": true, "/readyz": true, "/version": true, "/version/": true}

// TestEveryPathNeedsCredentials requests every served path, with each method, without credentials and with invalid ones.
func TestEveryPathNeedsCredentials(t *testing.T) {
	oneAtATime(t)
	e := apiservertest.New(t)
	paths := []string{"/", "/nonsense", "/apis/nonsense.example.com/v1/things"}
	_, body := do(t, e, http.MethodGet, "/", "")
	for _, p := range strings.Split(body, `"`) {
		if strings.HasPrefix(p, "/") {
			paths = append(paths, p)
		}
	}
	for _, r := range builtin.Resources() {
		paths = append(paths, pathsOf(&r)...)
	}
	if len(paths) < 400 {
		t.Fatalf("only %d paths", len(paths))
	}
	checked := 0
	for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} {
		for _, p := range paths {
			want := http.StatusForbidden
			if openPaths[p] && method == "GET" {
				want = http.StatusOK
			}
			checked++
			if code, body := doAs(t, e, method, p, ""); code != want {
				t.Errorf("%s %s without credentials: %d, want %d: %.200s", method, p, code, want, body)
			}
		}
	}
	for _, p := range paths {
		if code, body := doAs(t, e, "GET", p, "nonsense"); code != http.StatusUnauthorized {
			t.Errorf("GET %s with a wrong token: %d: %.200s", p, code, body)
		}
	}
	t.Logf("%d requests", checked)
}

// pathsOf returns the paths of a resource: its collections, an object, and the subresources.
func pathsOf(r *objects.Resource) []string {
	var out []string
	for _, v := range r.Versions {
		if v.Unserved {
			continue
		}
		base := "/apis/" + v.Group + "/" + v.Version
		if v.Group == "" {
			base = "/api/" + v.Version
		}
		in := base
		if !r.Names.Cluster {
			in += "/namespaces/kube-system"
			out = append(out, base+"/"+r.Names.Plural)
		}
		in += "/" + r.Names.Plural
		out = append(out, in, in+"/x", in+"/x/status", in+"?watch=true")
		for _, sub := range r.Connects {
			out = append(out, in+"/x/"+sub)
		}
	}
	return out
}

// doAs makes a request with a token; "": without credentials.
func doAs(t *testing.T, e *apiservertest.Env, method, path, token string) (int, string) {
	t.Helper()
	other := *e
	other.AdminConfig = e.Config(token)
	resp, body := do(t, &other, method, path, "")
	return resp.StatusCode, body
}

// TestServiceAccountsAreLimitedToTheirBindings: a ServiceAccount reads only the Secrets that a binding allows.
func TestServiceAccountsAreLimitedToTheirBindings(t *testing.T) {
	e := apiservertest.New(t)
	cs, ctx := clientset(t, e.AdminConfig), testContext(t)
	for _, ns := range []string{"one", "two"} {
		if _, err := cs.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := cs.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cs.CoreV1().ServiceAccounts("one").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := cs.CoreV1().ServiceAccounts("one").CreateToken(ctx, "a", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := clientset(t, e.Config(token.Status.Token))
	reads := func(ns string) (allowed int) {
		t.Helper()
		_, get := own.CoreV1().Secrets(ns).Get(ctx, "s", metav1.GetOptions{})
		_, list := own.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{})
		w, watch := own.CoreV1().Secrets(ns).Watch(ctx, metav1.ListOptions{})
		if w != nil {
			w.Stop()
		}
		for _, err := range []error{get, list, watch} {
			switch {
			case err == nil:
				allowed++
			case !apierrors.IsForbidden(err):
				t.Error(err)
			}
		}
		return allowed
	}
	for _, ns := range []string{"one", "two", "kube-system"} {
		if n := reads(ns); n != 0 {
			t.Errorf("without a role it reads Secrets of %s in %d ways", ns, n)
		}
	}
	if _, err := cs.RbacV1().RoleBindings("one").Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "r"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "one", Name: "a"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if one, two := reads("one"), reads("two"); one != 3 || two != 0 {
		t.Errorf("with a role in its namespace it reads in %d ways there and in %d elsewhere", one, two)
	}
	if _, err := own.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("all Secrets: %v", err)
	}
}
