package serviceaccount

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUnused(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	deleted := metav1.NewTime(now)
	for _, tt := range []struct {
		name    string
		created string
		used    string
		change  func(*corev1.Secret)
		want    bool
	}{
		{"never used", "2024-01-01", "", nil, true},
		{"new", "2025-06-02", "", nil, false},
		{"used more than a year ago", "2024-01-01", "2025-05-31", nil, true},
		{"used a year ago", "2024-01-01", "2025-06-01", nil, false},
		{"used on a day that is none", "2024-01-01", "recently", nil, false},
		{"being deleted", "2024-01-01", "", func(s *corev1.Secret) { s.DeletionTimestamp = &deleted }, false},
		{"of another type", "2024-01-01", "", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, false},
	} {
		created, err := time.Parse(time.DateOnly, tt.created)
		if err != nil {
			t.Fatal(err)
		}
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(created)}, Type: corev1.SecretTypeServiceAccountToken}
		if tt.used != "" {
			s.Labels = map[string]string{lastUsed: tt.used}
		}
		if tt.change != nil {
			tt.change(s)
		}
		if got := unused(s, now); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

func TestTrackedEnough(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	for since, want := range map[string]string{"2025-05-31": "true", "2025-06-01": "false", "2026-05-01": "false", "": "error", "soon": "error"} {
		cm := &corev1.ConfigMap{Data: map[string]string{"since": since}}
		if since == "" {
			cm.Data = nil
		}
		enough, err := trackedEnough(cm, now)
		got := fmt.Sprint(enough)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("since %q: got %s, %v", since, got, err)
		}
	}
}
