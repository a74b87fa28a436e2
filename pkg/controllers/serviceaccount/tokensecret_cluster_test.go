package serviceaccount_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

// TestTokenOfASecret: a token Secret gets a token, which is valid until the Secret or its account is deleted.
func TestTokenOfASecret(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	controllertest.Create(c, client.Secrets, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "token", Annotations: map[string]string{"kubernetes.io/service-account.name": "default"}},
		Type:       corev1.SecretTypeServiceAccountToken,
	})
	var secret *corev1.Secret
	c.Until("the token", func() bool {
		secret, _ = controllertest.Get[*corev1.Secret](c, client.Secrets, "token")
		return len(secret.Data["token"]) > 0
	})
	account, _ := controllertest.Get[*corev1.ServiceAccount](c, client.ServiceAccounts, "default")
	controllertest.Want(c, "namespace", string(secret.Data["namespace"]), "default")
	controllertest.Want(c, "ca.crt", string(secret.Data["ca.crt"]), "a certificate")
	controllertest.Want(c, "uid", secret.Annotations["kubernetes.io/service-account.uid"], string(account.UID))

	set, err := kubernetes.NewForConfig(c.Env.Config(string(secret.Data["token"])))
	if err != nil {
		t.Fatal(err)
	}
	review, err := set.AuthenticationV1().SelfSubjectReviews().Create(c.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	controllertest.Want(c, "user", review.Status.UserInfo.Username, "system:serviceaccount:default:default")
	if _, err := c.Delete(c.Context(), controllertest.At(client.Secrets, "token"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := set.AuthenticationV1().SelfSubjectReviews().Create(c.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err == nil {
		t.Error("the token of a Secret that is gone is good")
	}
}

// TestTokenSecrets: the deletion of an account deletes its token Secrets, and no others.
func TestTokenSecrets(t *testing.T) {
	c := controllertest.Start(t, clock.Real())
	bot := controllertest.Create(c, client.ServiceAccounts, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot", Namespace: "default"}})
	secret := func(name, account string, kind corev1.SecretType) {
		controllertest.Create(c, client.Secrets, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: "default",
				Annotations: map[string]string{corev1.ServiceAccountNameKey: account, corev1.ServiceAccountUIDKey: string(bot.UID)},
			},
			Type: kind,
		})
	}
	secret("token", "bot", corev1.SecretTypeServiceAccountToken)
	secret("other", "bot", corev1.SecretTypeOpaque)
	secret("stale", "absent", corev1.SecretTypeServiceAccountToken)
	gone := func(name string) func() bool {
		return func() bool {
			_, ok := controllertest.Get[*corev1.Secret](c, client.Secrets, name)
			return !ok
		}
	}
	c.Until("the token of an absent account gone", gone("stale"))
	controllertest.Want(c, "the token is gone", gone("token")(), false)
	if _, err := c.Delete(c.Context(), controllertest.At(client.ServiceAccounts, "bot"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Until("the token gone", gone("token"))
	controllertest.Want(c, "the other secret is gone", gone("other")(), false)
}
