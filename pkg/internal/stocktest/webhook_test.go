package stocktest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// rules are the webhooks of a Site: they default the title, reject a rude title, and make the title immutable.
type rules struct{}

func (rules) Default(_ context.Context, m *corev1.ConfigMap) error {
	if m.Data["title"] == "" {
		m.Data = map[string]string{"title": "Untitled"}
	}
	return nil
}

func (rules) ValidateCreate(_ context.Context, m *corev1.ConfigMap) (admission.Warnings, error) {
	if strings.Contains(m.Data["title"], "rude") {
		return nil, errors.New("mind your words")
	}
	return admission.Warnings{"a site is public"}, nil
}

func (rules) ValidateUpdate(_ context.Context, old, now *corev1.ConfigMap) (admission.Warnings, error) {
	if old.Data["title"] != now.Data["title"] {
		return nil, errors.New("the title stays")
	}
	return nil, nil
}

func (rules) ValidateDelete(_ context.Context, m *corev1.ConfigMap) (admission.Warnings, error) {
	if m.Labels["keep"] != "" {
		return nil, errors.New("it is to be kept")
	}
	return nil, nil
}

// certificate writes a certificate for loopback addresses to dir and returns it as PEM.
func certificate(t *testing.T, dir string) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "webhooks"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, b := range map[string][]byte{"tls.crt": cert, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert
}

// freePort returns a port without a listener.
func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// startWebhooks serves the rules until the test ends. It returns a function that maps a path to its client
// configuration.
func startWebhooks(t *testing.T, c cluster) func(path string) admissionv1.WebhookClientConfig {
	t.Helper()
	dir, port := t.TempDir(), freePort(t)
	trusted := certificate(t, dir)
	m, err := ctrl.NewManager(c.config, ctrl.Options{
		Metrics:       metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: dir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := ctrl.NewWebhookManagedBy(m, &corev1.ConfigMap{}).WithDefaulter(rules{}).WithValidator(rules{}).Complete(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("manager of the webhooks: %v", err)
		}
	})
	eventually(t, "the webhooks are served", func(context.Context) error { return m.GetWebhookServer().StartedChecker()(nil) })
	return func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{URL: ptr.To(fmt.Sprintf("https://127.0.0.1:%d%s", port, path)), CABundle: trusted}
	}
}

func register(t *testing.T, direct client.Client, at func(path string) admissionv1.WebhookClientConfig) {
	t.Helper()
	ops := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete}
	rule := admissionv1.RuleWithOperations{Operations: ops, Rule: admissionv1.Rule{
		APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
	}}
	sites := &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "site"}}
	mutating := rule
	mutating.Operations = ops[:2]
	for _, obj := range []client.Object{
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "sites"}, Webhooks: []admissionv1.MutatingWebhook{{
			Name: "default.sites.example.com", ClientConfig: at("/mutate--v1-configmap"), Rules: []admissionv1.RuleWithOperations{mutating},
			ObjectSelector: sites, SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "sites"}, Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "check.sites.example.com", ClientConfig: at("/validate--v1-configmap"), Rules: []admissionv1.RuleWithOperations{rule},
			ObjectSelector: sites, SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}}},
	} {
		if err := direct.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// warnings collects warnings.
type warnings struct{ texts []string }

func (h *warnings) HandleWarningHeader(_ int, _, text string) { h.texts = append(h.texts, text) }

// TestWebhooks uses controller-runtime's webhooks to default, reject and warn.
func TestWebhooks(t *testing.T) {
	c := newCluster(t)
	var warnings warnings
	conf := rest.CopyConfig(c.config)
	conf.WarningHandler = &warnings
	direct, err := client.New(conf, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	register(t, direct, startWebhooks(t, c))
	site := func(name, title string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"kind": "site"}},
			Data:       map[string]string{"title": title},
		}
	}
	denied := func(what string, err error, message string) {
		t.Helper()
		if want := `admission webhook "check.sites.example.com" denied the request: ` + message; !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
	plain := site("plain", "")
	if err := direct.Create(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	if plain.Data["title"] != "Untitled" {
		t.Errorf("created with %v", plain.Data)
	}
	if len(warnings.texts) != 1 || warnings.texts[0] != "a site is public" {
		t.Errorf("warnings %q", warnings.texts)
	}
	denied("create", direct.Create(t.Context(), site("bad", "how rude")), "mind your words")
	plain.Data["title"] = "Other"
	denied("update", direct.Update(t.Context(), plain), "the title stays")
	plain.Data["title"] = "Untitled"
	plain.Labels["keep"] = "yes"
	if err := direct.Update(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	denied("delete", direct.Delete(t.Context(), plain), "it is to be kept")
	other := site("other", "rude, but no site")
	other.Labels = nil
	if err := direct.Create(t.Context(), other); err != nil {
		t.Errorf("an object that is no site: %v", err)
	}
}
