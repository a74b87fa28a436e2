package apiserver_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// TestPodSecurity: a namespace's labels enforce a standard for its pods; changing them warns about existing pods.
func TestPodSecurity(t *testing.T) {
	warnings := &warningLog{}
	cfg := rest.CopyConfig(apiservertest.New(t).AdminConfig)
	cfg.WarningHandler = warnings
	c := kubernetes.NewForConfigOrDie(cfg)
	if _, err := c.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create := func(name string) error {
		_, err := c.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "x"}}}}, metav1.CreateOptions{})
		return err
	}
	if err := create("before"); err != nil {
		t.Fatal(err)
	}
	label := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`)
	if _, err := c.CoreV1().Namespaces().Patch(t.Context(), "default", "application/merge-patch+json", label, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`existing pods in namespace "default" violate the new PodSecurity enforce level "baseline:latest"`, "before: host namespaces"} {
		if !slices.Contains(warnings.text, want) {
			t.Errorf("warnings are %q, without %q", warnings.text, want)
		}
	}
	const want = `pods "after" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`
	if err := create("after"); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	bad := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"everything"}}}`)
	const invalid = `Namespace "default" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "everything": must be one of privileged, baseline, restricted`
	if _, err := c.CoreV1().Namespaces().Patch(t.Context(), "default", "application/merge-patch+json", bad, metav1.PatchOptions{}); err == nil || err.Error() != invalid {
		t.Errorf("got  %v\nwant %s", err, invalid)
	}
}
