package core

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSecretWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		kind corev1.SecretType
		key  string
		want int
	}{
		"no certificate": {corev1.SecretTypeTLS, "x", 1},
		"no key":         {corev1.SecretTypeTLS, "", 1},
		"much too long":  {corev1.SecretTypeTLS, strings.Repeat("x", longestKey+1), 0},
		"of another use": {corev1.SecretTypeOpaque, "x", 0},
	} {
		s := &corev1.Secret{Type: c.kind, Data: map[string][]byte{corev1.TLSPrivateKeyKey: []byte(c.key)}}
		if got := secretWarnings(s, nil); len(got) != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
