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

// token is a service account's token as the API gave it.
type token struct {
	text    string
	renewAt time.Time
	seconds int64 // how long it was asked for
}

// Tokens are renewed when this much of their life is over, and at the latest after renewLatest.
const (
	renewShare  = 0.8
	renewLatest = 24 * time.Hour
)

// serviceAccountToken returns the token that a projected volume shows: the last one, or a new one when that gets old.
func (w *worker) serviceAccountToken(ctx context.Context, pod *corev1.Pod, p *corev1.ServiceAccountTokenProjection) (string, error) {
	now := w.host.Clock.Now()
	seconds := int64(time.Hour / time.Second)
	if p.ExpirationSeconds != nil {
		seconds = *p.ExpirationSeconds
	}
	w.mu.Lock()
	if w.config == nil {
		w.config = &volumes{tokens: map[string]token{}, written: map[string]payload{}}
	}
	t, ok := w.config.tokens[p.Audience]
	w.mu.Unlock()
	if ok && t.seconds == seconds && now.Before(t.renewAt) {
		return t.text, nil
	}
	fresh, err := w.requestToken(ctx, pod, p.Audience, seconds)
	if err != nil {
		if ok { // the old one may be good for a while
			return t.text, nil
		}
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.config != nil {
		w.config.tokens[p.Audience] = fresh
	}
	return fresh.text, nil
}

func (w *worker) requestToken(ctx context.Context, pod *corev1.Pod, audience string, seconds int64) (token, error) {
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
	got, err := w.client.Create(ctx, t, req, metav1.CreateOptions{})
	if err != nil {
		return token{}, fmt.Errorf("failed to fetch token: %w", err)
	}
	answer, ok := got.(*authenticationv1.TokenRequest)
	if !ok {
		return token{}, fmt.Errorf("request token: the answer is a %T", got)
	}
	now := w.host.Clock.Now()
	life := answer.Status.ExpirationTimestamp.Sub(now)
	return token{
		text: answer.Status.Token, seconds: seconds,
		renewAt: now.Add(min(time.Duration(float64(life)*renewShare), renewLatest)),
	}, nil
}

// renewTokensIn returns in how long the first of the pod's tokens has to be renewed, 0 when it has none.
func (w *worker) renewTokensIn() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.config == nil {
		return 0
	}
	var in time.Duration
	for _, t := range w.config.tokens {
		in = soonest(in, max(t.renewAt.Sub(w.host.Clock.Now()), time.Second))
	}
	return in
}
