package certificates_test

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
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
	"github.com/minikctl/minikctl/pkg/objects"
)

var csrs = certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")

// request creates a CertificateSigningRequest and returns its private key, PEM.
func request(c *controllertest.Cluster, name, signer, common string, groups, usages []string) []byte {
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
	controllertest.Create(c, csrs, req)
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: secret})
}

func getRequest(c *controllertest.Cluster, name string) *certificatesv1.CertificateSigningRequest {
	c.Helper()
	obj, err := c.Get(c.Context(), client.Target{Resource: csrs, Name: name}, metav1.GetOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return obj.(*certificatesv1.CertificateSigningRequest)
}

// approve approves a request, with kubectl if it is installed.
func approve(c *controllertest.Cluster, name string) {
	c.Helper()
	if program, err := exec.LookPath("kubectl"); err == nil {
		admin, err := c.Env.PKI.Admin()
		if err != nil {
			c.Fatal(err)
		}
		file := filepath.Join(c.Env.Dir, "kubeconfig")
		access := pki.Access{Server: c.Env.URL, CA: c.Env.PKI.CA(), Cluster: "t", Context: "t", User: "t", Client: admin}
		if err := pki.WriteKubeconfig(file, pki.Kubeconfig(access)); err != nil {
			c.Fatal(err)
		}
		cmd := exec.CommandContext(c.Context(), program, "certificate", "approve", name)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+file)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "approved") {
			c.Fatalf("kubectl certificate approve: %v: %s", err, out)
		}
		return
	}
	next := getRequest(c, name).DeepCopy()
	next.Status.Conditions = append(next.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"})
	if _, err := c.Update(c.Context(), client.Target{Resource: csrs, Name: name}.Sub("approval"), next, metav1.UpdateOptions{}); err != nil {
		c.Fatal(err)
	}
}

// TestSignedCertificateAuthenticates: the API server authenticates a client by an issued certificate.
func TestSignedCertificateAuthenticates(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	request(c, "pending", "kubernetes.io/kube-apiserver-client", "paula", nil, []string{"client auth"})
	key := request(c, "carl", "kubernetes.io/kube-apiserver-client", "carl", []string{"people", "painters"}, []string{"client auth"})
	approve(c, "carl")
	c.Until("the certificate", func() bool { return len(getRequest(c, "carl").Status.Certificate) > 0 })
	controllertest.Want(c, "issued before the approval", len(getRequest(c, "pending").Status.Certificate), 0)

	cfg := &rest.Config{Host: c.Env.URL, TLSClientConfig: rest.TLSClientConfig{
		CAData: c.Env.PKI.CA(), CertData: getRequest(c, "carl").Status.Certificate, KeyData: key}}
	set, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	review, err := set.AuthenticationV1().SelfSubjectReviews().Create(c.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Want(c, "user", review.Status.UserInfo.Username, "carl")
	controllertest.Want(c, "groups", strings.Join(review.Status.UserInfo.Groups, " "), "people painters system:authenticated")
}

// TestRefusedRequestIsFailed: a request that a signer refuses gets the condition Failed.
func TestRefusedRequestIsFailed(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	request(c, "wrong", "kubernetes.io/kube-apiserver-client-kubelet", "system:node:n1", []string{"system:masters"}, []string{"client auth", "digital signature"})
	request(c, "other", "example.com/signer", "x", nil, []string{"client auth"})
	approve(c, "other")
	approve(c, "wrong")
	c.Until("the failure", func() bool { return len(getRequest(c, "wrong").Status.Conditions) == 2 })
	got := getRequest(c, "wrong").Status
	controllertest.Want(c, "type", got.Conditions[1].Type, certificatesv1.CertificateFailed)
	controllertest.Want(c, "reason", got.Conditions[1].Reason, "SignerValidationFailure")
	controllertest.Want(c, "message", got.Conditions[1].Message, "subject organization is not system:nodes")
	controllertest.Want(c, "certificate", len(got.Certificate)+len(getRequest(c, "other").Status.Certificate), 0)
}

// TestAutoApproval: a node's request is approved and signed if RBAC allows it, also when the binding is created later.
func TestAutoApproval(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	request(c, "early", "kubernetes.io/kube-apiserver-client-kubelet", "system:node:n1", []string{"system:nodes"}, []string{"client auth", "digital signature"})
	controllertest.Create(c, rbacv1.SchemeGroupVersion.WithResource("clusterrolebindings"), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes"},
		Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "admin"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
	})
	request(c, "late", "kubernetes.io/kube-apiserver-client-kubelet", "system:node:n2", []string{"system:nodes"}, []string{"client auth", "digital signature", "key encipherment"})
	for _, name := range []string{"early", "late"} {
		c.Until(name+" signed", func() bool { return len(getRequest(c, name).Status.Certificate) > 0 })
		cond := getRequest(c, name).Status.Conditions[0]
		controllertest.Want(c, name, cond.Reason+": "+cond.Message, "AutoApproved: Auto approving kubelet client certificate after SubjectAccessReview.")
	}
}

// TestOldRequestsAreDeleted: a pending request is deleted after a day.
func TestOldRequestsAreDeleted(t *testing.T) {
	clk := testclock.NewFakeClock(time.Now()) //nolint:forbidigo // the server's clock is the real one
	c := controllertest.Start(t, clk)
	request(c, "old", "example.com/signer", "x", nil, []string{"client auth"})
	c.Until("seen", func() bool {
		_, ok := client.CacheOf[*certificatesv1.CertificateSigningRequest](c.Caches, csrs).Get(objects.Key{Name: "old"})
		return ok
	})
	c.Until("gone", func() bool {
		clk.Step(time.Hour)
		l, err := c.List(c.Context(), client.Target{Resource: csrs}, metav1.ListOptions{})
		return err == nil && len(l.Items) == 0
	})
}
