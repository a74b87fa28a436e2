package apiserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
)

func signingRequest(t *testing.T, name string, groups ...string) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: groups}}, key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	return `{"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "` + name + `"}, "spec": {
		"signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"], "request": "` + base64.StdEncoding.EncodeToString(text) + `"}}`
}

func TestKubectlAuthCommands(t *testing.T) {
	oneAtATime(t)
	programs := kubectls()
	if len(programs) == 0 {
		t.Skip("no kubectl on this machine")
	}
	e := apiservertest.New(t)
	pair, err := e.PKI.Admin()
	if err != nil {
		t.Fatal(err)
	}
	file, home := filepath.Join(e.Dir, "kubeconfig"), t.TempDir()
	access := pki.Access{Server: e.URL, CA: e.PKI.CA(), Cluster: "t", Context: "t", User: "t", Client: pair}
	if err := pki.WriteKubeconfig(file, pki.Kubeconfig(access)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		stdin, args string
		want        []string
	}{
		{"", "auth whoami", []string{"Username", "system:masters"}},
		{"", "auth can-i --list", []string{"*.*", "[*]"}},
		{"", "auth can-i list pods", []string{"yes"}},
		{"", "auth can-i list pods --as dora", []string{"no"}},
		{"", "get clusterroles", []string{"cluster-admin", "view", "system:node", "system:controller:deployment-controller", "system:aggregate-to-edit"}},
		{"", "get clusterrolebindings cluster-admin -o wide", []string{"ClusterRole/cluster-admin", "system:masters"}},
		{"", "get roles -n kube-system", []string{"extension-apiserver-authentication-reader"}},
		{"", "get clusterroles -l kubernetes.io/bootstrapping=rbac-defaults -o name", []string{"clusterrole.rbac.authorization.k8s.io/admin"}},
		{"", "create rolebinding r --clusterrole=view --user=dora", []string{"rolebinding.rbac.authorization.k8s.io/r created"}},
		{"", "auth can-i list pods --as dora", []string{"yes"}},
		{"", "auth can-i list secrets --as dora", []string{"no"}},
		{"", "auth can-i --list --as dora", []string{"pods/log", "[get list watch]", "selfsubjectreviews.authentication.k8s.io"}},
		{"", "create clusterrolebinding mine --clusterrole=cluster-admin --user=dora --as dora", []string{`cannot create resource "clusterrolebindings"`}},
		{signingRequest(t, "carl", "people"), "create -f -", []string{"certificatesigningrequest.certificates.k8s.io/carl created"}},
		{signingRequest(t, "root", "system:masters"), "create -f -", []string{"use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"}},
		{"", "get csr carl", []string{"SIGNERNAME", "Pending"}},
		{"", "certificate approve carl", []string{"certificatesigningrequest.certificates.k8s.io/carl approved"}},
		{"", "get csr carl", []string{"Approved"}},
		{"", "certificate deny carl", []string{"is already Approved"}},
		{"", "delete clusterrole system:heapster", []string{"deleted"}},
		{"", "get clusterrole system:heapster", []string{"not found"}},
	} {
		cmd := exec.CommandContext(testContext(t), programs[0], strings.Fields(c.args)...)
		cmd.Env = []string{"KUBECONFIG=" + file, "HOME=" + home, "PATH=/usr/bin:/bin"}
		cmd.Stdin = strings.NewReader(c.stdin)
		out, _ := cmd.CombinedOutput() // a refusal is also output to compare
		for _, want := range c.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("kubectl %s: %q is not in\n%s", c.args, want, out)
			}
		}
	}
}

// TestAnonymousReadsHealthOnly requests every path without credentials.
func TestAnonymousReadsHealthOnly(t *testing.T) {
	e := apiservertest.New(t)
	hc, err := rest.HTTPClientFor(rest.AnonymousClientConfig(e.AdminConfig))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{
		"/healthz": 200, "/livez": 200, "/readyz": 200, "/version": 200,
		"/": 403, "/api": 403, "/apis": 403, "/api/v1": 403, "/apis/apps/v1": 403, "/metrics": 403, "/openapi/v2": 403, "/openapi/v3": 403,
		"/debug/pprof/": 403, "/debug/flags/v": 403, "/openid/v1/jwks": 403, "/.well-known/openid-configuration": 403, "/healthz/ping": 403,
		"/api/v1/namespaces/kube-system/secrets": 403, "/api/v1/pods": 403, "/apis/nonsense/v1/x": 403,
		"/apis/rbac.authorization.k8s.io/v1/clusterroles": 403, "/apis/minikctl.dev/v1alpha1/traces": 403,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := hc.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}
