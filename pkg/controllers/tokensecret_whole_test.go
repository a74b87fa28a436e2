package controllers_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
)

// TestTokenOfASecret: a Secret that asks for a token of an account gets one, which is good until either is gone.
func TestTokenOfASecret(t *testing.T) {
	c := start(t, clock.Real())
	c.until("the account", func() bool {
		_, ok := get[*corev1.ServiceAccount](c, client.ServiceAccounts, "default")
		return ok
	})
	create(c, client.Secrets, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "token", Annotations: map[string]string{"kubernetes.io/service-account.name": "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	})
	var secret *corev1.Secret
	c.until("the token", func() bool {
		secret, _ = get[*corev1.Secret](c, client.Secrets, "token")
		return len(secret.Data["token"]) > 0
	})
	account, _ := get[*corev1.ServiceAccount](c, client.ServiceAccounts, "default")
	want(c, "namespace", string(secret.Data["namespace"]), "default")
	want(c, "ca.crt", string(secret.Data["ca.crt"]), "a certificate")
	want(c, "uid", secret.Annotations["kubernetes.io/service-account.uid"], string(account.UID))

	set, err := kubernetes.NewForConfig(c.env.Config(string(secret.Data["token"])))
	if err != nil {
		t.Fatal(err)
	}
	who, err := set.AuthenticationV1().SelfSubjectReviews().Create(c.ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want(c, "user", who.Status.UserInfo.Username, "system:serviceaccount:default:default")
	if _, err := c.Delete(c.ctx, at(client.Secrets, "token"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := set.AuthenticationV1().SelfSubjectReviews().Create(c.ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err == nil {
		t.Error("the token of a Secret that is gone is good")
	}
}
