package authn

import (
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage/stagetest"
)

func TestBootstrapTokens(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		change func(*corev1.Secret)
		token  string
		groups []string // nil: refused
	}{
		"good":         {nil, "abcdef.0123456789abcdef", []string{"system:bootstrappers", "system:bootstrappers:kubeadm:nodes", "system:authenticated"}},
		"wrong secret": {nil, "abcdef.0123456789abcdee", nil},
		"other id":     {nil, "abcdeg.0123456789abcdef", nil},
		"no token":     {nil, "abcdef", nil},
		"expired":      {func(s *corev1.Secret) { s.Data["expiration"] = []byte("2025-12-31T23:59:59Z") }, "abcdef.0123456789abcdef", nil},
		"in time": {func(s *corev1.Secret) {
			s.Data["expiration"] = []byte("2026-01-02T00:00:00Z")
			delete(s.Data, "auth-extra-groups")
		}, "abcdef.0123456789abcdef", []string{"system:bootstrappers", "system:authenticated"}},
		"bad time":     {func(s *corev1.Secret) { s.Data["expiration"] = []byte("tomorrow") }, "abcdef.0123456789abcdef", nil},
		"another type": {func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, "abcdef.0123456789abcdef", nil},
		"other use":    {func(s *corev1.Secret) { delete(s.Data, "usage-bootstrap-authentication") }, "abcdef.0123456789abcdef", nil},
		"greater":      {func(s *corev1.Secret) { s.Data["auth-extra-groups"] = []byte("system:masters") }, "abcdef.0123456789abcdef", nil},
		"going":        {func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} }, "abcdef.0123456789abcdef", nil},
		"elsewhere":    {func(s *corev1.Secret) { s.Namespace = "default" }, "abcdef.0123456789abcdef", nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
				Data: map[string][]byte{
					"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"),
					"usage-bootstrap-authentication": []byte("true"), "auth-extra-groups": []byte("system:bootstrappers:kubeadm:nodes"),
				},
			}
			if c.change != nil {
				c.change(s)
			}
			r := stagetest.NewReader()
			r.Put("secrets", s)
			req := httptest.NewRequest("GET", "/", nil)
			req.Header.Set("Authorization", "Bearer "+c.token)
			info, ok, err := authenticate(New(Config{Reader: r, Clock: clocktesting.NewFakeClock(now)}), req)
			if c.groups == nil {
				if ok || err == nil {
					t.Fatalf("accepted as %v", info)
				}
				return
			}
			if err != nil || info.GetName() != "system:bootstrap:abcdef" || !slices.Equal(info.GetGroups(), c.groups) {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}
