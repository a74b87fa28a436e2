package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"slices"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/controllers/controller"
)

var csrStart = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func usageList(list ...certificatesv1.KeyUsage) []certificatesv1.KeyUsage { return list }

func TestSignerRequirements(t *testing.T) {
	client, server := usageList("digital signature", "client auth"), usageList("digital signature", "key encipherment", "server auth")
	node := func(change func(*x509.CertificateRequest)) *x509.CertificateRequest {
		r := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}}
		if change != nil {
			change(r)
		}
		return r
	}
	dns := func(r *x509.CertificateRequest) { r.DNSNames = []string{"n1"} }
	ip := func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }
	mail := func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"a@b"} }
	uri := func(r *x509.CertificateRequest) { r.URIs = []*url.URL{{Host: "h"}} }
	for name, c := range map[string]struct {
		signer string
		req    *x509.CertificateRequest
		usages []certificatesv1.KeyUsage
		want   string
	}{
		"client":                {"kubernetes.io/kube-apiserver-client", node(dns), usageList("client auth"), ""},
		"client, all usages":    {"kubernetes.io/kube-apiserver-client", node(nil), usageList("client auth", "digital signature", "key encipherment"), ""},
		"client that serves":    {"kubernetes.io/kube-apiserver-client", node(nil), usageList("client auth", "server auth"), "invalid usage for client certificate: server auth"},
		"client without":        {"kubernetes.io/kube-apiserver-client", node(nil), usageList("digital signature"), "missing required usage for client certificate: client auth"},
		"node":                  {"kubernetes.io/kube-apiserver-client-kubelet", node(nil), client, ""},
		"node, RSA":             {"kubernetes.io/kube-apiserver-client-kubelet", node(nil), append(slices.Clone(client), "key encipherment"), ""},
		"node of others":        {"kubernetes.io/kube-apiserver-client-kubelet", node(func(r *x509.CertificateRequest) { r.Subject.Organization = nil }), client, "subject organization is not system:nodes"},
		"node of two":           {"kubernetes.io/kube-apiserver-client-kubelet", node(func(r *x509.CertificateRequest) { r.Subject.Organization = []string{"system:nodes", "x"} }), client, "subject organization is not system:nodes"},
		"node with a DNS name":  {"kubernetes.io/kube-apiserver-client-kubelet", node(dns), client, "DNS subjectAltNames are not allowed"},
		"node with an address":  {"kubernetes.io/kube-apiserver-client-kubelet", node(ip), client, "IP subjectAltNames are not allowed"},
		"node with mail":        {"kubernetes.io/kube-apiserver-client-kubelet", node(mail), client, "Email subjectAltNames are not allowed"},
		"node with a URI":       {"kubernetes.io/kube-apiserver-client-kubelet", node(uri), client, "URI subjectAltNames are not allowed"},
		"node by another name":  {"kubernetes.io/kube-apiserver-client-kubelet", node(func(r *x509.CertificateRequest) { r.Subject.CommonName = "n1" }), client, "subject common name does not begin with system:node:"},
		"node that serves":      {"kubernetes.io/kube-apiserver-client-kubelet", node(nil), server, "usages did not match [client auth digital signature key encipherment]"},
		"serving":               {"kubernetes.io/kubelet-serving", node(dns), server, ""},
		"serving an address":    {"kubernetes.io/kubelet-serving", node(ip), usageList("server auth", "digital signature"), ""},
		"serving no host":       {"kubernetes.io/kubelet-serving", node(nil), server, "DNS or IP subjectAltName is required"},
		"serving with mail":     {"kubernetes.io/kubelet-serving", node(func(r *x509.CertificateRequest) { dns(r); mail(r) }), server, "Email subjectAltNames are not allowed"},
		"serving as client":     {"kubernetes.io/kubelet-serving", node(dns), client, "usages did not match [digital signature key encipherment server auth]"},
		"legacy has no demands": {"kubernetes.io/legacy-unknown", node(dns), nil, ""},
	} {
		got := ""
		if err := signers[c.signer](c.req, c.usages); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestLifetimes(t *testing.T) {
	seconds := func(n int32) *int32 { return &n }
	year := 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		seconds *int32
		end     time.Duration // after now
	}{
		"default":   {nil, year - backdate},
		"too long":  {seconds(1 << 30), year - backdate},
		"too short": {seconds(1), 10 * time.Minute},
		"short":     {seconds(3600), time.Hour},
		"eight h":   {seconds(8 * 3600), 8*time.Hour - backdate},
		"a day":     {seconds(86400), 24*time.Hour - backdate},
	} {
		from, to := lifetime(c.seconds, csrStart)
		if from != csrStart.Add(-5*time.Minute) || to != csrStart.Add(c.end) {
			t.Errorf("%s: from %v to %v", name, from, to)
		}
	}
}

func authority(t *testing.T, life time.Duration) controller.Authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: csrStart.Add(-time.Hour), NotAfter: csrStart.Add(life), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "ca"}}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return controller.Authority{Cert: cert, Key: key}
}

func TestIssue(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "carl", Organization: []string{"people"}}, DNSNames: []string{"a.b"}, EmailAddresses: []string{"c@d"},
		ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}, // basic constraints with CA: true
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	req, err := x509.ParseCertificateRequest(der)
	if err != nil {
		t.Fatal(err)
	}
	spec := certificatesv1.CertificateSigningRequestSpec{Usages: usageList("client auth", "digital signature", "server auth")}
	text, err := issue(authority(t, time.Hour), req, spec, csrStart)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if cert.IsCA || cert.Subject.CommonName != "carl" || cert.Subject.Organization[0] != "people" || cert.DNSNames[0] != "a.b" ||
		cert.EmailAddresses[0] != "c@d" || !key.PublicKey.Equal(cert.PublicKey) || cert.KeyUsage != x509.KeyUsageDigitalSignature ||
		!slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}) {
		t.Errorf("the certificate is %+v", cert)
	}
	if !cert.NotAfter.Equal(csrStart.Add(time.Hour)) {
		t.Errorf("it outlives its authority: %v", cert.NotAfter)
	}
	if _, err := issue(authority(t, 0), req, spec, csrStart); err == nil {
		t.Error("an authority that has expired signs")
	}
	spec.Usages = usageList("nonsense")
	if _, err := issue(authority(t, time.Hour), req, spec, csrStart); err == nil || err.Error() != `unrecognized usage values: ["nonsense"]` {
		t.Errorf("an unknown usage: %v", err)
	}
	spec.Usages = usageList("client auth")
	req.Signature[len(req.Signature)-1] ^= 1
	if _, err := issue(authority(t, time.Hour), req, spec, csrStart); err == nil {
		t.Error("a request that its key has not signed gets a certificate")
	}
}

func TestSelfNodeClientPermissions(t *testing.T) {
	req := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Username: "system:node:n1", Usages: usageList("digital signature", "client auth"),
	}}
	parsed := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}}
	names := func() (out []string) {
		for _, r := range rightsFor(req, parsed) {
			out = append(out, r.subresource)
		}
		return out
	}
	if got := names(); !slices.Equal(got, []string{"selfnodeclient", "nodeclient"}) {
		t.Errorf("a node for itself: %v", got)
	}
	req.Spec.Username = "system:bootstrap:abcdef"
	if got := names(); !slices.Equal(got, []string{"nodeclient"}) {
		t.Errorf("for a node: %v", got)
	}
	req.Spec.SignerName = certificatesv1.KubeletServingSignerName
	if got := names(); got != nil {
		t.Errorf("of another signer: %v", got)
	}
}

func TestFinishedRequests(t *testing.T) {
	issued := func(life time.Duration) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority(t, life).Cert.Raw})
	}
	for name, c := range map[string]struct {
		kind    certificatesv1.RequestConditionType
		age     time.Duration
		created time.Duration
		cert    []byte
		want    bool
	}{
		"new":                   {"", 0, time.Minute, nil, false},
		"pending":               {"", 0, 24 * time.Hour, nil, false},
		"pending too long":      {"", 0, 24*time.Hour + 1, nil, true},
		"approved":              {"Approved", 24 * time.Hour, 48 * time.Hour, nil, false},
		"approved too long":     {"Approved", 24*time.Hour + 1, 48 * time.Hour, nil, true},
		"issued":                {"Approved", time.Hour, 48 * time.Hour, issued(time.Hour), false},
		"issued long ago":       {"Approved", time.Hour + 1, 48 * time.Hour, issued(time.Hour), true},
		"issued and expired":    {"Approved", time.Minute, time.Minute, issued(-time.Second), true},
		"denied":                {"Denied", time.Hour, time.Hour, nil, false},
		"denied long ago":       {"Denied", time.Hour + 1, time.Hour, nil, true},
		"failed long ago":       {"Failed", time.Hour + 1, time.Hour, nil, true},
		"another's own opinion": {"example.com/Seen", 1000 * time.Hour, 1000 * time.Hour, nil, false},
	} {
		req := &certificatesv1.CertificateSigningRequest{}
		req.CreationTimestamp = metav1.NewTime(csrStart.Add(-c.created))
		req.Status.Certificate = c.cert
		if c.kind != "" {
			req.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: c.kind, LastUpdateTime: metav1.NewTime(csrStart.Add(-c.age))}}
		}
		if got := outdated(req, csrStart); got != c.want {
			t.Errorf("%s: over %v", name, got)
		}
	}
}
