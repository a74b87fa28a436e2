package process_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// TestReadOnlyDirs removes a pod and a runtime with directories that a container has made read-only. Root may write to these, so the test
// runs as an ordinary user.
func TestReadOnlyDirs(t *testing.T) {
	if os.Getuid() == 0 {
		rerun(t, "^TestReadOnlyDirs$", &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}})
		return
	}
	m := newMachine(t)
	const script = "mkdir -p a/b && echo > a/b/file && chmod 500 a a/b"
	m.ended(m.shell(script))
	if err := m.rt.StopPod(t.Context(), "pod"); err != nil {
		t.Error(err)
	}
	pod, err := m.rt.StartPod(t.Context(), kubelet.PodSpec{UID: "pod2", Namespace: "default", Name: "pod2"})
	if err != nil {
		t.Fatal(err)
	}
	m.pod = pod
	m.ended(m.start("pod2", kubelet.ContainerSpec{Command: []string{"/bin/sh", "-c", script}}))
	// The end of the test purges the runtime.
}
