package serviceaccount_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controllertest"
)

const invalidSince = "kubernetes.io/legacy-token-invalid-since"

// TestLegacyTokenCleaner follows the section "Legacy ServiceAccount token cleaner" of the documentation. The controllers' clock is years
// ahead of the server's.
func TestLegacyTokenCleaner(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		clk := testclock.NewFakeClock(time.Now()) //nolint:forbidigo // the server's clock is the real one
		testLegacyTokenCleaner(t, controllertest.Start(t, clk), clk)
	})
	t.Run("over HTTP", func(t *testing.T) {
		clk := testclock.NewFakeClock(time.Now()) //nolint:forbidigo // the server's clock is the real one
		testLegacyTokenCleaner(t, controllertest.StartRemoteOn(t, clk), clk)
	})
}

func testLegacyTokenCleaner(t *testing.T, c *controllertest.Cluster, clk *testclock.FakeClock) {
	sa := controllertest.Create(c, client.ServiceAccounts, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "old", Namespace: "default"}, Secrets: []corev1.ObjectReference{{Name: "generated"}, {Name: "mounted"}},
	})
	for _, name := range []string{"generated", "mounted", "manual"} {
		controllertest.Create(c, client.Secrets, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", Annotations: map[string]string{corev1.ServiceAccountNameKey: "old", corev1.ServiceAccountUIDKey: string(sa.UID)},
		}, Type: corev1.SecretTypeServiceAccountToken})
	}
	controllertest.Create(c, client.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
		Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}}},
	}})
	label := func(name string) string {
		s, ok := controllertest.Get[*corev1.Secret](c, client.Secrets, name)
		if !ok {
			return "deleted"
		}
		return s.Labels[invalidSince]
	}
	c.Until("the controllers have all objects", func() bool {
		p, ok := controllertest.Get[*corev1.Pod](c, client.Pods, "p")
		return ok && p != nil && c.Exists(client.ConfigMaps, "kube-system/kube-apiserver-legacy-service-account-token-tracking")
	})
	begin := clk.Now()
	c.Until("an unused token is invalid", func() bool {
		clk.Step(24 * time.Hour)
		return label("generated") != ""
	})
	if passed := clk.Since(begin); passed < 365*24*time.Hour {
		t.Errorf("invalid after %v", passed)
	}
	// The label has the day of the mark: the clock has gone on until it was seen.
	marked, err := time.Parse(time.DateOnly, label("generated"))
	if err != nil {
		t.Fatal(err)
	}
	c.Until("an invalid token is deleted", func() bool {
		clk.Step(24 * time.Hour)
		return label("generated") == "deleted"
	})
	if passed := clk.Since(marked); passed < 365*24*time.Hour {
		t.Errorf("deleted after %v", passed)
	}
	for _, name := range []string{"mounted", "manual"} {
		if got := label(name); got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
