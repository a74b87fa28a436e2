package kubelet

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// token is a service account's token from the API.
type token struct {
	text    string
	renewAt time.Time
	seconds int64 // the requested lifetime
}

// A token is renewed after renewShare of its lifetime, and at the latest after renewLatest.
const (
	renewShare  = 0.8
	renewLatest = 24 * time.Hour
)

// serviceAccountToken returns the token of a projected volume. It requests a new one when the last is due for renewal.
func (v *podVolumes) serviceAccountToken(ctx context.Context, pod *corev1.Pod, p *corev1.ServiceAccountTokenProjection) (string, error) {
	now := v.clock().Now()
	seconds := int64(time.Hour / time.Second)
	if p.ExpirationSeconds != nil {
		seconds = *p.ExpirationSeconds
	}
	t, ok := v.tokens[p.Audience]
	if ok && t.seconds == seconds && now.Before(t.renewAt) {
		return t.text, nil
	}
	fresh, err := v.requestToken(ctx, pod, p.Audience, seconds)
	if err != nil {
		if ok { // the old token may be valid for a while
			return t.text, nil
		}
		return "", err
	}
	put(&v.tokens, p.Audience, fresh)
	return fresh.text, nil
}

func (v *podVolumes) requestToken(ctx context.Context, pod *corev1.Pod, audience string, seconds int64) (token, error) {
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if audience != "" {
		req.Spec.Audiences = []string{audience}
	}
	t := client.Target{Resource: client.ServiceAccounts, Namespace: pod.Namespace, Name: account, Subresource: "token"}
	got, err := v.kubelet.client.Create(ctx, t, req, metav1.CreateOptions{})
	if err != nil {
		return token{}, fmt.Errorf("failed to fetch token: %w", err)
	}
	request, ok := got.(*authenticationv1.TokenRequest)
	if !ok {
		return token{}, fmt.Errorf("request token: the response is a %T", got)
	}
	now := v.clock().Now()
	life := request.Status.ExpirationTimestamp.Sub(now)
	return token{
		text: request.Status.Token, seconds: seconds,
		renewAt: now.Add(min(time.Duration(float64(life)*renewShare), renewLatest)),
	}, nil
}

// renewTokensIn returns the time until the first of the pod's tokens is due for renewal; 0 when it has none.
func (v *podVolumes) renewTokensIn() time.Duration {
	var in time.Duration
	for _, t := range v.tokens {
		in = soonest(in, max(t.renewAt.Sub(v.clock().Now()), time.Second))
	}
	return in
}
