package controllers_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

var csrs = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")

// ask makes a request for a certificate, and returns its key.
func (c *cluster) ask(name, signer, common string, groups, usages []string) []byte {
	c.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: common, Organization: groups}}, key)
	if err != nil {
		c.Fatal(err)
	}
	secret, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		c.Fatal(err)
	}
	req := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: signer, Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
	for _, u := range usages {
		req.Spec.Usages = append(req.Spec.Usages, certificatesv1.KeyUsage(u))
	}
	create(c, csrs, req)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

func (c *cluster) request(name string) *certificatesv1.CertificateSigningRequest {
	c.Helper()
	obj, err := c.Get(c.ctx, client.Target{Resource: csrs, Name: name}, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return obj.(*certificatesv1.CertificateSigningRequest)
}

// approve approves a request as a person does, with kubectl where there is one.
func (c *cluster) approve(name string) {
	c.Helper()
	if program, err := exec.LookPath("kubectl"); err == nil {
		admin, err := c.env.PKI.Admin()
		if err != nil {
			c.Fatal(err)
		}
		file := filepath.Join(c.env.Dir, "kubeconfig")
		access := pki.Access{Server: c.env.URL, CA: c.env.PKI.CA(), Cluster: "t", Context: "t", User: "t", Client: admin}
		if err := pki.WriteKubeconfig(file, pki.Kubeconfig(access)); err != nil {
			c.Fatal(err)
		}
		cmd := exec.CommandContext(c.ctx, program, "certificate", "approve", name)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+file)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "approved") {
			c.Fatalf("kubectl certificate approve: %v: %s", err, out)
		}
		return
	}
	next := c.request(name).DeepCopy()
	next.Status.Conditions = append(next.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"})
	if _, err := c.Update(c.ctx, client.Target{Resource: csrs, Name: name}.Sub("approval"), next, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// TestCertificateOfARequest: who has a certificate issued is known by it.
func TestCertificateOfARequest(t *testing.T) {
	c := start(t, clock.Real())
	c.ask("pending", "kubernetes.io/kube-apiserver-client", "paula", nil, []string{"client auth"})
	key := c.ask("carl", "kubernetes.io/kube-apiserver-client", "carl", []string{"people", "painters"}, []string{"client auth"})
	c.approve("carl")
	c.until("the certificate", func() bool { return len(c.request("carl").Status.Certificate) > 0 })
	want(c, "issued before the approval", len(c.request("pending").Status.Certificate), 0)

	cfg := &rest.Config{Host: c.env.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: c.env.PKI.CA(), CertData: c.request("carl").Status.Certificate, KeyData: key}}
	set, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	who, err := set.AuthenticationV1().SelfSubjectReviews().Create(c.ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(c, "user", who.Status.UserInfo.Username, "carl")
	want(c, "groups", strings.Join(who.Status.UserInfo.Groups, " "), "people painters system:authenticated")
}

// TestRequestThatFails: what a signer does not sign is told.
func TestRequestThatFails(t *testing.T) {
	c := start(t, clock.Real())
	c.ask("wrong", "kubernetes.io/kube-apiserver-client-kubelet", "system:node:n1", []string{"system:masters"}, []string{"client auth", "digital signature"})
	c.ask("other", "example.com/signer", "x", nil, []string{"client auth"})
	c.approve("other")
	c.approve("wrong")
	c.until("the failure", func() bool { return len(c.request("wrong").Status.Conditions) == 2 })
	got := c.request("wrong").Status
	want(c, "type", got.Conditions[1].Type, certificatesv1.CertificateFailed)
	want(c, "reason", got.Conditions[1].Reason, "SignerValidationFailure")
	want(c, "message", got.Conditions[1].Message, "subject organization is not system:nodes")
	want(c, "certificate", len(got.Certificate)+len(c.request("other").Status.Certificate), 0)
}

// TestNodesApproveThemselves: a node's request is approved where a binding lets nodes have that, also when the binding comes
// later, and then signed.
func TestNodesApproveThemselves(t *testing.T) {
	c := start(t, clock.Real())
	c.ask("early", "kubernetes.io/kube-apiserver-client-kubelet", "system:node:n1", []string{"system:nodes"}, []string{"client auth", "digital signature"})
	create(c, rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes"},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "admin"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
	})
	c.ask("late", "kubernetes.io/kube-apiserver-client-kubelet", "system:node:n2", []string{"system:nodes"}, []string{"client auth", "digital signature", "key encipherment"})
	for _, name := range []string{"early", "late"} {
		c.until(name+" signed", func() bool { return len(c.request(name).Status.Certificate) > 0 })
		cond := c.request(name).Status.Conditions[0]
		want(c, name, cond.Reason+": "+cond.Message, "AutoApproved: Auto approving kubelet client certificate after SubjectAccessReview.")
	}
}

// TestOldRequestsGo: the requests that nobody decides do not stay for ever.
func TestOldRequestsGo(t *testing.T) {
	clk := testclock.NewFakeClock(time.Now()) //nolint:forbidigo // the server's clock is the real one
	c := start(t, clk)
	c.ask("old", "example.com/signer", "x", nil, []string{"client auth"})
	c.until("seen", func() bool {
		_, ok := client.CacheOf[*certificatesv1.CertificateSigningRequest](c.caches, csrs).Get(objects.Key{Name: "old"})
		return ok
	})
	c.until("gone", func() bool {
		clk.Step(time.Hour)
		l, err := c.List(c.ctx, client.Target{Resource: csrs}, metav1.ListOptions{})
		return err == nil && len(l.Items) == 0
	})
}
