package stocktest

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const certManagerModule = "github.com/cert-manager/cert-manager"

// certManager is cert-manager in a cluster: its chart as it is, with the images mapped to its programs.
type certManager struct {
	*testing.T
	cluster
	direct client.Client
	kube   kubernetes.Interface
}

// newCertManager installs cert-manager. When it returns, its pods are ready and the webhook answers.
func newCertManager(t *testing.T) certManager {
	t.Helper()
	m := certManager{T: t}
	program := filepath.Join(t.TempDir(), "certmanager")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "certmanager", "-ldflags", "-s -w", "-o", program, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build cert-manager: %v\n%s", err, out)
	}
	where := exec.CommandContext(t.Context(), "go", "list", "-C", "certmanager", "-m", "-f", "{{.Dir}}", certManagerModule)
	dir, err := where.Output()
	if err != nil {
		t.Fatalf("find the module of cert-manager: %v", err)
	}
	m.cluster = newClusterWith(t, certManagerImages(t, program))
	t.Cleanup(func() {
		if t.Failed() {
			m.logPods()
		}
	})
	h := newHelm(t, m.cluster, "cert-manager", "cert-manager")
	h.install(filepath.Join(strings.TrimSpace(string(dir)), "deploy", "charts", "cert-manager"), map[string]any{
		"crds": map[string]any{"enabled": true}, "startupapicheck": map[string]any{"enabled": false},
	})
	m.kube = kubernetes.NewForConfigOrDie(m.config)
	if m.direct, err = client.New(m.config, client.Options{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the webhook answers, by the authority that was injected", func(ctx context.Context) error {
		return m.direct.Create(ctx, certManagerObject("ClusterIssuer", "", "unused", map[string]any{"selfSigned": map[string]any{}}), client.DryRunAll)
	})
	return m
}

// certManagerImages returns the config's entries of the chart's images. Their user is not root, as the chart demands.
func certManagerImages(t *testing.T, program string) string {
	t.Helper()
	user := ""
	if os.Getuid() == 0 {
		user = `, user: "65532"`
		for dir := filepath.Dir(program); dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	images := ""
	for _, part := range []string{"controller", "cainjector", "webhook"} {
		images += fmt.Sprintf("  quay.io/jetstack/cert-manager-%s: {entrypoint: [%s, %s]%s}\n", part, program, part, user)
	}
	return images
}

// logPods logs the pods, their Events and their logs.
func (m certManager) logPods() {
	for _, args := range []string{"get pods,events", "logs -l app=cert-manager --tail=20", "logs -l app=cainjector --tail=20", "logs -l app=webhook --tail=20"} {
		out, _ := m.command(append([]string{"-n", "cert-manager"}, strings.Fields(args)...)...).CombinedOutput()
		m.Logf("%s\n%s", args, out)
	}
}

// certificateOf creates a Certificate of an issuer with a Secret of the same name.
func certificateOf(name, kind, by string, more map[string]any) *unstructured.Unstructured {
	spec := map[string]any{
		"secretName": name, "commonName": name, "dnsNames": []any{name + ".example.com"}, "privateKey": map[string]any{"algorithm": "ECDSA"},
		"issuerRef": map[string]any{"kind": kind, "name": by},
	}
	for k, v := range more {
		spec[k] = v
	}
	return certManagerObject("Certificate", "default", name, spec)
}

// certManagerObject returns an object of a cert-manager kind.
func certManagerObject(kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "cert-manager.io/v1", "kind": kind, "spec": spec}}
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// make creates an object and waits until cert-manager reports it as ready.
func (m certManager) make(obj *unstructured.Unstructured) {
	m.Helper()
	if err := m.direct.Create(m.Context(), obj); err != nil {
		m.Fatal(err)
	}
	eventually(m.T, fmt.Sprintf("%s %s is ready", obj.GetKind(), obj.GetName()), func(ctx context.Context) error {
		if err := m.direct.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(obj.Object, "status", "conditions")
		if err != nil {
			return err
		}
		for _, c := range conditions {
			if c := c.(map[string]any); c["type"] == "Ready" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", conditions)
	})
}

// secret returns the Secret of a Certificate.
func (m certManager) secret(name string) *corev1.Secret {
	m.Helper()
	s, err := m.kube.CoreV1().Secrets("default").Get(m.Context(), name, metav1.GetOptions{})
	if err != nil {
		m.Fatal(err)
	}
	if s.Type != corev1.SecretTypeTLS || len(s.Data["tls.key"]) == 0 {
		m.Errorf("Secret %s of type %s has no key", name, s.Type)
	}
	return s
}

// verify checks that a Secret's certificate is for its name, and was issued by an authority.
func (m certManager) verify(s *corev1.Secret, authority []byte) {
	m.Helper()
	block, _ := pem.Decode(s.Data["tls.crt"])
	if block == nil {
		m.Fatalf("no certificate in %s", s.Name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		m.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: s.Name + ".example.com"}); err != nil {
		m.Errorf("certificate of %s: %v", s.Name, err)
	}
}

// TestCertManager issues certificates: Helm installs the chart, and cert-manager's controllers, webhook and injector
// run in pods with the chart's RBAC rules.
func TestCertManager(t *testing.T) {
	t.Parallel()
	m := newCertManager(t)
	m.columns("-n cert-manager pods", `(?s)^NAME.*\ncert-manager-\S+ +1/1 +Running .*cert-manager-cainjector-\S+ +1/1 +Running .*cert-manager-webhook-\S+ +1/1 +Running `)
	m.make(certManagerObject("ClusterIssuer", "", "self", map[string]any{"selfSigned": map[string]any{}}))
	m.make(certificateOf("authority", "ClusterIssuer", "self", map[string]any{"isCA": true}))
	authority := m.secret("authority")
	m.verify(authority, authority.Data["tls.crt"])
	m.make(certManagerObject("Issuer", "default", "authority", map[string]any{"ca": map[string]any{"secretName": "authority"}}))
	site := certificateOf("site", "Issuer", "authority", nil)
	m.make(site)
	m.verify(m.secret("site"), authority.Data["tls.crt"])

	m.columns("certificates.cert-manager.io", `^NAME +READY +SECRET +AGE\nauthority +True +authority +\S+\nsite +True +site +\S+\n$`)
	m.columns("certificaterequests -o wide", `(?m)^site-1 +True +True +authority +system:serviceaccount:cert-manager:cert-manager +Certificate fetched from issuer successfully +\S+$`)
	m.refuses()
	m.renews(site)
	m.deletes(site)
}

// columns compares kubectl's tables of resources.
func (m certManager) columns(args, want string) {
	m.Helper()
	out, err := m.command(append([]string{"get"}, strings.Fields(args)...)...).CombinedOutput()
	if err != nil || !regexp.MustCompile(want).Match(out) {
		m.Errorf("get %s: %v\n%s", args, err, out)
	}
}

// refuses checks that the webhook rejects invalid objects and unauthorized approvals.
func (m certManager) refuses() {
	m.Helper()
	bad := certificateOf("bad", "Issuer", "authority", map[string]any{"duration": "1s"})
	err := m.direct.Create(m.Context(), bad)
	want := `admission webhook "webhook.cert-manager.io" denied the request: spec.duration: Invalid value: 1000000000: certificate duration must be greater than 1h0m0s`
	if err == nil || !strings.Contains(err.Error(), want) {
		m.Errorf("a Certificate for a second: %v, want %s", err, want)
	}
	bad = certificateOf("bad", "Issuer", "authority", map[string]any{"privateKey": map[string]any{"algorithm": "Abacus"}})
	err = m.direct.Create(m.Context(), bad)
	want = `spec.privateKey.algorithm: Unsupported value: "Abacus": supported values: "RSA", "ECDSA", "Ed25519"`
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		m.Errorf("a key of another sort: %v, want %s", err, want)
	}
}

// renews changes a Certificate and waits until it is issued again.
func (m certManager) renews(site *unstructured.Unstructured) {
	m.Helper()
	before := m.secret("site").Data["tls.crt"]
	patch := []byte(`{"spec":{"dnsNames":["site.example.com","www.example.com"]}}`)
	if err := m.direct.Patch(m.Context(), site, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		m.Fatal(err)
	}
	eventually(m.T, "another certificate is issued", func(context.Context) error {
		if bytes.Equal(m.secret("site").Data["tls.crt"], before) {
			return fmt.Errorf("it is the same")
		}
		return nil
	})
	requests := &unstructured.UnstructuredList{}
	requests.SetAPIVersion("cert-manager.io/v1")
	requests.SetKind("CertificateRequestList")
	bySelf := client.MatchingFields{"spec.issuerRef.name": "self"}
	if err := m.direct.List(m.Context(), requests, client.InNamespace("default"), bySelf); err != nil || len(requests.Items) != 1 {
		m.Errorf("%d requests to the issuer that signs for itself: %v", len(requests.Items), err)
	}
}

// deletes deletes a Certificate, and waits until its Secret and requests are gone.
func (m certManager) deletes(site *unstructured.Unstructured) {
	m.Helper()
	if err := m.direct.Delete(m.Context(), site); err != nil {
		m.Fatal(err)
	}
	eventually(m.T, "what belongs to the Certificate is gone", func(ctx context.Context) error {
		if _, err := m.kube.CoreV1().Secrets("default").Get(ctx, "site", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("its Secret: %w", err)
		}
		requests := &unstructured.UnstructuredList{}
		requests.SetAPIVersion("cert-manager.io/v1")
		requests.SetKind("CertificateRequestList")
		if err := m.direct.List(ctx, requests, client.InNamespace("default")); err != nil {
			return err
		}
		left := slices.ContainsFunc(requests.Items, func(r unstructured.Unstructured) bool { return strings.HasPrefix(r.GetName(), "site-") })
		if left {
			return fmt.Errorf("its requests are still there")
		}
		return nil
	})
}
