package controllers

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
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// tokensOf is an index of token Secrets by the ServiceAccount that they name, as NAMESPACE/NAME.
var tokensOf = client.NewIndex(accountOf)

// TokenSecret fills the Secrets that are to hold tokens of ServiceAccounts, and deletes those of accounts that are gone.
func TokenSecret(env Env) reconcile.Loop {
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
	token    TokenFor
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

// holding returns the Secrets with tokens of an account that is gone.
func (r tokenSecret) holding(ch client.Change[*corev1.ServiceAccount]) []objects.Key {
	if ch.Added() || !ch.Deleted() && ch.Old.UID == ch.New.UID {
		return nil
	}
	var keys []objects.Key
	for _, s := range r.secrets.ByIndex(tokensOf, ch.Key().String()) {
		keys = append(keys, keyOf(s))
	}
	return keys
}

func (r tokenSecret) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	s, ok := r.secrets.Get(key)
	if !ok || len(accountOf(s)) == 0 || s.DeletionTimestamp != nil {
		return 0, nil
	}
	name := objects.Key{Namespace: s.Namespace, Name: s.Annotations[corev1.ServiceAccountNameKey]}
	if account, ok := r.accounts.Get(name); ok && serves(s, account) {
		return 0, r.fill(ctx, s, account)
	}
	live, err := r.client.Get(ctx, client.In(client.ServiceAccounts, name), metav1.GetOptions{})
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return 0, err
	case err == nil && serves(s, live.(*corev1.ServiceAccount)):
		return 0, r.fill(ctx, s, live.(*corev1.ServiceAccount))
	}
	opts := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(s.UID))}
	_, err = r.client.Delete(ctx, client.In(client.Secrets, key), opts)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return 0, nil // it is gone, and perhaps another one of that name is there
	}
	return 0, err
}

// fill puts into a Secret what it lacks: the token, and what a client of the API needs besides. Without the key of tokens
// there are none.
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
	_, err := r.client.Update(ctx, client.In(client.Secrets, keyOf(s)), next, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // a newer one is on its way, or none
	}
	return err
}

// serves reports whether a Secret's token is, or is to be, of that very account.
func serves(s *corev1.Secret, account *corev1.ServiceAccount) bool {
	uid := s.Annotations[corev1.ServiceAccountUIDKey]
	return uid == "" || types.UID(uid) == account.UID
}
