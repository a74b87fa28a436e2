package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// TestResize: a running container gets limits, which hold for the processes that it has, also after the supervisor has died.
func TestResize(t *testing.T) {
	m := newMachine(t)
	var resizer kubelet.Resizer = m.rt
	resize := func(id kubelet.ContainerID, l kubelet.Limits) {
		t.Helper()
		if err := resizer.Resize(t.Context(), id, l); err != nil {
			t.Fatal(err)
		}
		if got := m.find(id).Limits; got != l {
			t.Errorf("got the limits %+v, want %+v", got, l)
		}
	}
	id := m.shell(`sleep 1000 & (until [ -e '` + m.root + `/hungry' ]; do sleep 0.01; done; head -c 200000000 /dev/zero; sleep 1000) | tail -n 1`)
	for _, milli := range []int64{50, 70} {
		resize(id, kubelet.Limits{MilliCPU: milli, Memory: 400 << 20})
		if enforcesCPU(m.rt) {
			m.checkQuota(id, fmt.Sprint(milli*100))
		}
	}
	resize(id, kubelet.Limits{Memory: 500 << 20})
	if enforcesCPU(m.rt) {
		m.checkQuota(id, "-1 max")
	}
	if err := resizer.Resize(t.Context(), id, kubelet.Limits{Memory: 4096}); err == nil || !strings.Contains(err.Error(), "is below the current usage of") {
		t.Errorf("with less memory than it uses: %v", err)
	}
	if got := m.find(id).Limits.Memory; got != 500<<20 {
		t.Errorf("after a refused resize: %d", got)
	}
	resize(id, kubelet.Limits{Memory: 60 << 20})
	m.killSupervisor()
	m.wait("the limit with the next supervisor", func() bool { return m.supervisor() > 0 && m.find(id).Limits.Memory == 60<<20 })
	m.touch("hungry")
	if c := m.ended(id); c.Reason != "OOMKilled" || c.ExitCode != 137 {
		t.Errorf("above the new limit: got %+v", c)
	}
	if err := resizer.Resize(t.Context(), id, kubelet.Limits{}); err == nil {
		t.Error("a container that has ended is resized")
	}
}

// checkQuota checks the CPU quota of all processes of a container: one of the words of want.
func (m *machine) checkQuota(id kubelet.ContainerID, want string) {
	m.Helper()
	leader := fmt.Sprint(m.find(id).PID)
	children, err := os.ReadFile("/proc/" + leader + "/task/" + leader + "/children")
	if err != nil {
		m.Fatal(err)
	}
	for _, pid := range append(strings.Fields(string(children)), leader) {
		directory := cpuGroup(m.T, pid)
		members, err := os.ReadFile(filepath.Join(directory, "cgroup.procs"))
		if err != nil || !slices.Contains(strings.Fields(string(members)), pid) {
			m.Errorf("process %s is not in %q: %v", pid, directory, err)
		}
		limit := ""
		for _, file := range []string{"cpu.cfs_quota_us", "cpu.max"} {
			b, _ := os.ReadFile(filepath.Join(directory, file)) // one of them is there
			limit += string(b)
		}
		if first, _, _ := strings.Cut(strings.TrimSpace(limit), " "); directory == "" || !strings.Contains(" "+want+" ", " "+first+" ") {
			m.Errorf("process %s: the quota in %q is %q, want %s", pid, directory, limit, want)
		}
	}
}
