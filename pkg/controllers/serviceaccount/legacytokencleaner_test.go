package serviceaccount

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
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

// untracked is the client of a new cluster, whose API server has not yet begun to track tokens.
type untracked struct{ client.Client }

func (untracked) Get(_ context.Context, t client.Target, _ metav1.GetOptions) (objects.Object, error) {
	return nil, apierrors.NewNotFound(t.Resource.GroupResource(), t.Name)
}

// TestNewClusterIsNoWarning checks that the first run, which may come before the API server has created the ConfigMap, logs nothing.
func TestNewClusterIsNoWarning(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	r := legacyTokenCleaner{env: controller.Env{Client: untracked{}, Clock: clock.Real()}}
	if again, err := r.reconcile(t.Context(), objects.Key{}); again != 0 || err != nil || log.Len() > 0 {
		t.Errorf("%v, %v, log:\n%s", again, err, &log)
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
