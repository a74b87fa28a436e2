package tokens

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/minikctl/minikctl/pkg/objects"
)

// legacyIssuer is the issuer of tokens in Secrets. They are for the API server only, and valid as long as the Secret holds
// them.
const legacyIssuer = "kubernetes/serviceaccount"

// invalidSince is the label of a Secret whose token is invalid because it was unused for too long.
const invalidSince = "kubernetes.io/legacy-token-invalid-since"

// legacyClaims are the claims of a token in a Secret.
type legacyClaims struct {
	Issuer    string `json:"iss"`
	Namespace string `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	Secret    string `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	Account   string `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	UID       string `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
	Subject   string `json:"sub"`
}

// ForSecret returns the token for a Secret of type kubernetes.io/service-account-token.
func (i *Issuer) ForSecret(secret *corev1.Secret, account *corev1.ServiceAccount) (string, error) {
	return sign(i.key, i.kid, legacyClaims{
		Issuer: legacyIssuer, Namespace: account.Namespace, Secret: secret.Name, Account: account.Name, UID: string(account.UID),
		Subject: Username(account.Namespace, account.Name),
	})
}

// verifyLegacy is Verify for a token in a Secret, whose signature is verified. body holds its claims.
func (i *Issuer) verifyLegacy(ctx context.Context, token string, body []byte, wanted []string) (user.Info, []string, error) {
	var c legacyClaims
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, nil, fmt.Errorf("claims: %w", err)
	}
	for _, claim := range [][2]string{
		{"sub", c.Subject}, {"namespace", c.Namespace}, {"secretName", c.Secret}, {"serviceAccountName", c.Account}, {"serviceAccountUID", c.UID},
	} {
		if claim[1] == "" {
			return nil, nil, fmt.Errorf("%s claim is missing", claim[0])
		}
	}
	if c.Issuer != legacyIssuer || c.Subject != Username(c.Namespace, c.Account) {
		return nil, nil, errors.New("sub claim is invalid")
	}
	if len(wanted) > 0 && !slices.Contains(wanted, i.issuer) {
		return nil, nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", []string{i.issuer}, wanted)
	}
	if err := i.held(ctx, token, c); err != nil {
		return nil, nil, err
	}
	return &user.DefaultInfo{Name: c.Subject, UID: c.UID, Groups: Groups(c.Namespace)}, []string{i.issuer}, nil
}

// held returns an error unless the Secret still holds the token and its ServiceAccount still has the same UID.
func (i *Issuer) held(ctx context.Context, token string, c legacyClaims) error {
	obj, err := i.reader.Get(ctx, secrets, objects.Key{Namespace: c.Namespace, Name: c.Secret})
	if err != nil || obj.GetDeletionTimestamp() != nil {
		return errors.New("Token has been invalidated") //nolint:staticcheck // Kubernetes' words
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok || subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) == 0 {
		return errors.New("Token does not match server's copy") //nolint:staticcheck // Kubernetes' words
	}
	account, err := i.reader.Get(ctx, serviceAccounts, objects.Key{Namespace: c.Namespace, Name: c.Account})
	switch {
	case err != nil:
		return err
	case account.GetDeletionTimestamp() != nil:
		return fmt.Errorf("ServiceAccount %s/%s has been deleted", c.Namespace, c.Account)
	case string(account.GetUID()) != c.UID:
		return fmt.Errorf("ServiceAccount UID (%s) does not match claim (%s)", account.GetUID(), c.UID)
	case secret.Labels[invalidSince] != "":
		return fmt.Errorf("the token in secret %s/%s for service account %s/%s has been marked invalid. Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the '%s' label from the secret to temporarily allow use of this token",
			c.Namespace, c.Secret, c.Namespace, c.Account, invalidSince)
	}
	return nil
}
