package stocktest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/minikctl/minikctl/pkg/internal/stocktest/flunders"
)

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// TestExtensionServer runs an extension server on Kubernetes' library: the API server proxies requests to it, and it
// delegates authentication and authorization to the API server.
func TestExtensionServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	cs := kubernetes.NewForConfigOrDie(c.config)
	token := wardleAccount(t, cs)
	l, err := net.Listen("tcp", "127.200.0.1:0")
	if err != nil {
		t.Skipf("no address for a pod: %v", err)
	}
	srv, err := flunders.New(l, "wardle.default.svc", c.kubeconfigOf(t, token))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the extension: %v", err)
		}
	})
	wardleService(t, cs, l.Addr())
	dyn := dynamic.NewForConfigOrDie(c.config)
	if _, err := dyn.Resource(apiServices).Create(ctx, apiService(srv.Bundle()), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the extension is available", func(ctx context.Context) error {
		s, err := dyn.Resource(apiServices).Get(ctx, "v1alpha1.wardle.example.com", metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(s.Object, "status", "conditions")
		if text := fmt.Sprint(conditions); !strings.Contains(text, "reason:Passed") {
			return errors.New(text)
		}
		return nil
	})
	t.Run("objects", func(t *testing.T) { flundersThrough(t, dyn) })
	t.Run("delegation", func(t *testing.T) { delegated(t, c, cs, l.Addr().String(), token) })
	t.Run("kubectl", func(t *testing.T) {
		for _, do := range []struct{ args, want string }{
			{"get flunders", "NAME   CREATED AT\none "},
			{"api-resources --api-group=wardle.example.com", "flunders"},
			{"explain flunder.reference", "FIELD: reference <string>"},
			{"create -f testdata/flunder.yaml", "flunder.wardle.example.com/two created"},
			{"get fl/two", "the server doesn't have a resource type"},
			{"get flunder two -o jsonpath={.reference}", "somewhere"},
		} {
			out, _ := c.command(append([]string{"--kubeconfig", c.kubeconfig}, strings.Fields(do.args)...)...).CombinedOutput() // a refusal is also output to compare
			if !strings.Contains(string(out), do.want) {
				t.Errorf("%s: %q is not in\n%s", do.args, do.want, out)
			}
		}
	})
}

// wardleAccount creates the extension's ServiceAccount with the rights that every extension server needs, and returns
// its token.
func wardleAccount(t *testing.T, cs *kubernetes.Clientset) string {
	t.Helper()
	ctx := t.Context()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "wardle"}}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "wardle"}}
	reviews := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "wardle"}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:auth-delegator"}}
	trust := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "wardle"}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "extension-apiserver-authentication-reader"}}
	_, err := cs.CoreV1().ServiceAccounts("default").Create(ctx, account, metav1.CreateOptions{})
	if err == nil {
		_, err = cs.RbacV1().ClusterRoleBindings().Create(ctx, reviews, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = cs.RbacV1().RoleBindings("kube-system").Create(ctx, trust, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	made, err := cs.CoreV1().ServiceAccounts("default").CreateToken(ctx, "wardle", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}

// kubeconfigOf writes a kubeconfig file with a token.
func (c cluster) kubeconfigOf(t *testing.T, token string) string {
	t.Helper()
	conf := api.NewConfig()
	conf.Clusters["c"] = &api.Cluster{Server: c.config.Host, CertificateAuthorityData: c.config.CAData}
	conf.AuthInfos["u"] = &api.AuthInfo{Token: token}
	conf.Contexts["x"] = &api.Context{Cluster: "c", AuthInfo: "u"}
	conf.CurrentContext = "x"
	file := filepath.Join(c.home, "wardle.kubeconfig")
	if err := clientcmd.WriteToFile(*conf, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// wardleService creates the Service and the endpoint of the extension.
func wardleService(t *testing.T, cs *kubernetes.Clientset, at net.Addr) {
	t.Helper()
	host, text, err := net.SplitHostPort(at.String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	port, name := int32(n), "https"
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "wardle"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: name, Port: 443}}}}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "wardle", Labels: map[string]string{discoveryv1.LabelServiceName: "wardle"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{host}}},
	}
	if _, err := cs.CoreV1().Services("default").Create(t.Context(), svc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.DiscoveryV1().EndpointSlices("default").Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func apiService(bundle []byte) *unstructured.Unstructured {
	raw, _ := json.Marshal(bundle) // a string in base64
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1alpha1.wardle.example.com"},
		"spec": map[string]any{
			"group": flunders.Version.Group, "version": flunders.Version.Version, "groupPriorityMinimum": int64(1000), "versionPriority": int64(15),
			"caBundle": strings.Trim(string(raw), `"`), "service": map[string]any{"namespace": "default", "name": "wardle"},
		},
	}}
}

// flundersThrough creates, reads and watches objects of the extension.
func flundersThrough(t *testing.T, dyn dynamic.Interface) {
	r := dyn.Resource(flunders.Version.WithResource("flunders")).Namespace("default")
	w, err := r.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	one := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": flunders.Version.String(), "kind": "Flunder", "metadata": map[string]any{"name": "one"}, "reference": "other",
	}}
	if _, err := r.Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case e := <-w.ResultChan():
		if f, ok := e.Object.(*unstructured.Unstructured); !ok || f.GetName() != "one" || f.Object["reference"] != "other" {
			t.Errorf("watched: %v", e)
		}
	case <-time.After(time.Minute):
		t.Error("the watch received no event")
	}
	if list, err := r.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("list: %v %v", list, err)
	}
}

// delegated sends requests as other users: both servers authorize them, and the extension accepts the cluster's tokens.
func delegated(t *testing.T, c cluster, cs *kubernetes.Clientset, address, token string) {
	as := rest.CopyConfig(c.config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "carol"}
	carol := dynamic.NewForConfigOrDie(as).Resource(flunders.Version.WithResource("flunders")).Namespace("default")
	if _, err := carol.List(t.Context(), metav1.ListOptions{}); err == nil || !strings.Contains(err.Error(), `User "carol" cannot list resource "flunders" in API group "wardle.example.com"`) {
		t.Errorf("carol may not: %v", err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "flunders"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{flunders.Version.Group}, Resources: []string{"flunders"}, Verbs: []string{"get", "list"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "flunders"},
		Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "carol"}, {Kind: "ServiceAccount", Namespace: "default", Name: "wardle"}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "flunders"}}
	if _, err := cs.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := cs.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if list, err := carol.List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("carol may: %v", err)
	}
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the server is the test's own
	defer hc.CloseIdleConnections()
	for _, ask := range []struct {
		token string
		code  int
		want  string
	}{
		{token, http.StatusOK, `"name":"one"`},
		{"", http.StatusForbidden, `system:anonymous`},
		{"none", http.StatusUnauthorized, "Unauthorized"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/apis/wardle.example.com/v1alpha1/namespaces/default/flunders", nil)
		if err != nil {
			t.Fatal(err)
		}
		if ask.token != "" {
			req.Header.Set("Authorization", "Bearer "+ask.token)
		}
		req.Header.Set("X-Remote-User", "carol") // without a front proxy certificate
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != ask.code || !strings.Contains(string(body), ask.want) {
			t.Errorf("direct request: %s %s, want %d %s", resp.Status, body, ask.code, ask.want)
		}
	}
}
