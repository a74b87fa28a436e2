package process_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// TestUnhealthyWithoutSupervisor keeps the supervisor from starting: another process holds its lock.
func TestUnhealthyWithoutSupervisor(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "runtime", "run", "supervisor.lock")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	m := &machine{T: t, root: root}
	m.open()
	t.Cleanup(func() {
		if err := purge(m.host, m.root); err != nil {
			t.Error(err)
		}
	})
	m.changed(func() bool { return m.rt.Healthy() != nil })
	if err := m.rt.Healthy(); !strings.Contains(err.Error(), "start supervisor") {
		t.Errorf("got %v", err)
	}
	if _, err := m.rt.Pods(t.Context()); err == nil {
		t.Error("pods are listed without a supervisor")
	}
	spec := kubelet.PodSpec{UID: types.UID("pod"), Namespace: "default", Name: "pod"}
	if _, err := m.rt.StartPod(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "start supervisor") {
		t.Errorf("a pod is started without a supervisor: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	m.changed(func() bool { return m.rt.Healthy() == nil })
	if _, err := m.rt.StartPod(t.Context(), spec); err != nil {
		t.Error(err)
	}
}

// changed waits until cond holds. It evaluates cond only after hints of the runtime.
func (m *machine) changed(cond func() bool) {
	m.Helper()
	over := time.NewTimer(time.Minute)
	defer over.Stop()
	for !cond() {
		select {
		case <-m.rt.Changed():
		case <-over.C:
			m.Fatal("the runtime announces no change")
		}
	}
}
