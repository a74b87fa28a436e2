package stocktest

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestInCluster runs clients in pods: client-go, the JavaScript library and a Python program find the API server, its authority and the
// token of the pod's ServiceAccount where they are in every cluster.
func TestInCluster(t *testing.T) {
	t.Parallel()
	t.Run("Go", func(t *testing.T) {
		t.Parallel()
		program := filepath.Join(t.TempDir(), "incluster")
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-s -w", "-o", program, "./incluster").CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		testInCluster(t, fmt.Sprintf("[%s]", program))
	})
	t.Run("JavaScript", func(t *testing.T) {
		t.Parallel()
		dir := installNode(t)
		testInCluster(t, fmt.Sprintf("{entrypoint: [node, incluster.js], workingDir: %s}", dir))
	})
	t.Run("Python", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("python3"); err != nil {
			t.Skipf("the client is a Python program: %v", err)
		}
		script, err := filepath.Abs("testdata/python/incluster.py")
		if err != nil {
			t.Fatal(err)
		}
		testInCluster(t, fmt.Sprintf("[python3, %s]", script))
	})
}

const inClusterPod = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: client}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  restartPolicy: Never
  containers: [{name: client, image: client, args: [written]}]
`

// testInCluster runs a pod with the program of an image, and checks what the program has written.
func testInCluster(t *testing.T, image string) {
	c := newClusterWith(t, "  client: "+image+"\n")
	create := c.command("apply", "-f", "-")
	create.Stdin = strings.NewReader(inClusterPod)
	if out, err := create.CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	core := kubernetes.NewForConfigOrDie(c.config).CoreV1()
	eventually(t, "the pod has ended", func(ctx context.Context) error {
		pod, err := core.Pods("default").Get(ctx, "client", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase == corev1.PodFailed {
			out, _ := c.command("logs", "client").CombinedOutput()
			t.Fatalf("the pod failed:\n%s", out)
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("its phase is %s", pod.Status.Phase)
		}
		return nil
	})
	written, err := core.ConfigMaps("default").Get(t.Context(), "written", metav1.GetOptions{})
	if err != nil || written.Data["pods"] != "1" {
		t.Errorf("the program has written %v: %v", written.Data, err)
	}
}
