package process_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// TestHostNamespaces: containers see the machine's processes and share its IPC, as pods with hostPID, hostIPC and shareProcessNamespace need.
func TestHostNamespaces(t *testing.T) {
	m := newMachine(t)
	own, err := os.Readlink("/proc/self/ns/ipc")
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	for name, mounts := range map[string][]kubelet.Mount{"plain": nil, "with a volume": {{Host: directory, Container: "/minikctl-test"}}} {
		spec := kubelet.ContainerSpec{Command: []string{"/bin/sh", "-c", fmt.Sprintf("readlink /proc/self/ns/ipc; tr '\\0' '\\n' </proc/%d/cmdline | head -1", os.Getpid())}, Mounts: mounts}
		if got, want := m.run(spec), own+"\n"+os.Args[0]+"\n"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
