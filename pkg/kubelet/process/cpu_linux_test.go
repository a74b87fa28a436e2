package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// cpuGroup returns the directory of the cgroup that limits the CPU time of a process, by its own and that of minikctl's.
func cpuGroup(t *testing.T, pid string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), "/")
		if !strings.Contains(filepath.Base(path), "minikctl-") {
			continue
		}
		for _, root := range []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"} {
			for _, file := range []string{"cpu.cfs_quota_us", "cpu.max"} {
				if _, err := os.Stat(filepath.Join(root, path, file)); err == nil {
					return filepath.Join(root, path)
				}
			}
		}
	}
	return ""
}

// TestCPULimit: the kernel throttles the processes of a container above its limit, those of commands too, and nothing is left.
func TestCPULimit(t *testing.T) {
	m := newMachine(t)
	if !enforcesCPU(m.rt) {
		t.Skip("this daemon can't create cgroups with a CPU controller")
	}
	spec := kubelet.ContainerSpec{Command: []string{"/bin/sh", "-c", "while :; do :; done"}, Limits: kubelet.Limits{MilliCPU: 50}}
	id := m.start("pod", spec)
	directory := cpuGroup(t, fmt.Sprint(m.find(id).PID))
	if directory == "" {
		t.Fatal("the container has no cgroup with a CPU limit")
	}
	own, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", m.find(id).PID))
	if err != nil {
		t.Fatal(err)
	}
	if got := m.exec(id, "cat", "/proc/self/cgroup"); got != string(own) {
		t.Errorf("a command is in other cgroups than the container: %q, want %q", got, own)
	}
	limit := ""
	for _, file := range []string{"cpu.cfs_quota_us", "cpu.max"} {
		b, _ := os.ReadFile(filepath.Join(directory, file)) // one of them is there
		limit += string(b)
	}
	if first, _, _ := strings.Cut(strings.TrimSpace(limit), " "); first != "5000" {
		t.Errorf("the limit is %q", limit)
	}
	m.wait("throttling", func() bool {
		b, err := os.ReadFile(filepath.Join(directory, "cpu.stat"))
		return err == nil && strings.Contains(string(b), "nr_throttled ") && !strings.Contains(string(b), "nr_throttled 0\n")
	})
	if err := m.rt.Stop(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(directory); !os.IsNotExist(err) {
		t.Errorf("the cgroup is left: %v", err)
	}
}
