// Package review authenticates and authorizes the requests to a component's own server, such as a kubelet's or a scheduler's. The API server reviews
// bearer tokens and rights at each request, with the identity of the component's client.
package review

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// User returns the user of a request over TLS by its verified client certificate or its bearer token. ok is false without valid credentials.
func User(ctx context.Context, c client.Client, r *http.Request) (user authenticationv1.UserInfo, ok bool, err error) {
	if r.TLS == nil {
		return user, false, nil
	}
	if user, ok = userOf(r.TLS); ok {
		return user, true, nil
	}
	token := bearerToken(r)
	if token == "" {
		return user, false, nil
	}
	target := client.Target{Resource: authenticationv1.SchemeGroupVersion.WithResource("tokenreviews")}
	created, err := c.Create(ctx, target, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return user, false, err
	}
	review, isReview := created.(*authenticationv1.TokenReview)
	if !isReview || !review.Status.Authenticated {
		return user, false, nil
	}
	return review.Status.User, true, nil
}

// userOf returns the user of a verified client certificate.
func userOf(c *tls.ConnectionState) (authenticationv1.UserInfo, bool) {
	if len(c.VerifiedChains) == 0 || c.PeerCertificates[0].Subject.CommonName == "" {
		return authenticationv1.UserInfo{}, false
	}
	subject := c.PeerCertificates[0].Subject
	return authenticationv1.UserInfo{Username: subject.CommonName, Groups: append(slices.Clone(subject.Organization), "system:authenticated")}, true
}

// bearerToken returns the token of a request, "" if it has none.
func bearerToken(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Anonymous reports whether a request has neither a verified client certificate nor a bearer token.
func Anonymous(r *http.Request) bool {
	return (r.TLS == nil || len(r.TLS.VerifiedChains) == 0) && bearerToken(r) == ""
}

// Allowed reports whether a user has the right that is the resource or the path of spec.
func Allowed(ctx context.Context, c client.Client, user authenticationv1.UserInfo, spec authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	spec.User, spec.UID, spec.Groups, spec.Extra = user.Username, user.UID, user.Groups, map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	target := client.Target{Resource: authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")}
	created, err := c.Create(ctx, target, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	review, ok := created.(*authorizationv1.SubjectAccessReview)
	return ok && review.Status.Allowed, nil
}
