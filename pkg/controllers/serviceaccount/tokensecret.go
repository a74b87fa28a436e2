package serviceaccount

import (
	"bytes"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// tokensOf lists token Secrets by their ServiceAccount, as NAMESPACE/NAME.
var tokensOf = client.NewIndex(accountOf)

// TokenSecret puts tokens into Secrets of the type kubernetes.io/service-account-token, and deletes those whose
// ServiceAccount is gone.
func TokenSecret(env controller.Env) reconcile.Loop {
	r := tokenSecret{
		client:   env.Client,
		token:    env.Token,
		ca:       env.RootCA,
		accounts: client.CacheOf[*corev1.ServiceAccount](env.Caches, client.ServiceAccounts),
		secrets:  client.CacheOf[*corev1.Secret](env.Caches, client.Secrets),
	}
	return reconcile.Loop{
		Name:      "tokensecret",
		Sources:   []reconcile.Source{reconcile.Map(r.accounts, r.holding), reconcile.Watch(r.secrets)},
		Reconcile: r.reconcile,
	}
}

type tokenSecret struct {
	client   client.Client
	token    controller.TokenFor
	ca       []byte
	accounts *client.Cache[*corev1.ServiceAccount]
	secrets  *client.Cache[*corev1.Secret]
}

func accountOf(s *corev1.Secret) []string {
	name := s.Annotations[corev1.ServiceAccountNameKey]
	if s.Type != corev1.SecretTypeServiceAccountToken || name == "" {
		return nil
	}
	return []string{s.Namespace + "/" + name}
}

// holding maps a deleted ServiceAccount to its token Secrets.
func (r tokenSecret) holding(ch client.Change[*corev1.ServiceAccount]) []objects.Key {
	if ch.Added() || !ch.Deleted() && ch.Old.UID == ch.New.UID {
		return nil
	}
	var keys []objects.Key
	for _, s := range r.secrets.ByIndex(tokensOf, ch.Key().String()) {
		keys = append(keys, controller.KeyOf(s))
	}
	return keys
}

func (r tokenSecret) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	s, ok := r.secrets.Get(key)
	if !ok || len(accountOf(s)) == 0 || s.DeletionTimestamp != nil {
		return 0, nil
	}
	name := objects.Key{Namespace: s.Namespace, Name: s.Annotations[corev1.ServiceAccountNameKey]}
	if account, ok := r.accounts.Get(name); ok && belongsTo(s, account) {
		return 0, r.fill(ctx, s, account)
	}
	live, err := r.client.Get(ctx, client.In(client.ServiceAccounts, name), metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return 0, err
	case err == nil && belongsTo(s, live.(*corev1.ServiceAccount)):
		return 0, r.fill(ctx, s, live.(*corev1.ServiceAccount))
	}
	opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))}
	_, err = r.client.Delete(ctx, client.In(client.Secrets, key), opts)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return 0, nil // the Secret is gone; another one may have its name
	}
	return 0, err
}

// fill adds the token, the CA certificate and the namespace to a Secret that lacks them. It does nothing in a process without
// the service account signing key.
func (r tokenSecret) fill(ctx context.Context, s *corev1.Secret, account *corev1.ServiceAccount) error {
	ca := len(r.ca) > 0 && !bytes.Equal(s.Data[corev1.ServiceAccountRootCAKey], r.ca)
	namespace := len(s.Data[corev1.ServiceAccountNamespaceKey]) == 0
	token := len(s.Data[corev1.ServiceAccountTokenKey]) == 0
	if r.token == nil || !ca && !namespace && !token {
		return nil
	}
	next := s.DeepCopy()
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	if ca {
		next.Data[corev1.ServiceAccountRootCAKey] = bytes.Clone(r.ca)
	}
	if namespace {
		next.Data[corev1.ServiceAccountNamespaceKey] = []byte(s.Namespace)
	}
	if token {
		text, err := r.token(s, account)
		if err != nil {
			return fmt.Errorf("make the token of %s: %w", account.Name, err)
		}
		next.Data[corev1.ServiceAccountTokenKey] = []byte(text)
	}
	next.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	_, err := r.client.Update(ctx, client.In(client.Secrets, controller.KeyOf(s)), next, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the Secret has changed or is gone; its watch event follows
	}
	return err
}

// belongsTo reports whether a Secret is for an account: its UID annotation is missing or that of the account.
func belongsTo(s *corev1.Secret, account *corev1.ServiceAccount) bool {
	uid := s.Annotations[corev1.ServiceAccountUIDKey]
	return uid == "" || types.UID(uid) == account.UID
}
