package supervisor

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/minikctl/minikctl/pkg/supervisor/role"
)

func TestCgroupFolder(t *testing.T) {
	const (
		hybrid  = "30 29 0:27 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n31 29 0:28 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n"
		unified = "25 24 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n"
		bound   = "25 24 0:28 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
	)
	for _, c := range []struct{ name, cgroups, mounts, want string }{
		{"version 1 only", "4:memory:/a\n", hybrid, ""},
		{"hybrid", "4:memory:/a\n0::/b\n", hybrid, "/sys/fs/cgroup/unified/b"},
		{"root", "0::/\n", unified, "/sys/fs/cgroup"},
		{"nested", "0::/user.slice/a b.scope\n", unified, "/sys/fs/cgroup/user.slice/a b.scope"},
		{"bound", "0::/docker/abc/x\n", bound, "/sys/fs/cgroup/x"},
		{"bound, elsewhere", "0::/docker/abcd\n", bound, ""},
		{"not mounted", "0::/\n", "", ""},
	} {
		if got := cgroupFolder(c.cgroups, c.mounts); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestCgroupHoldsEverySession kills a container whose processes have left its session, without a record of the sessions.
func TestCgroupHoldsEverySession(t *testing.T) {
	s, c := containerOf()
	c.cgroup = makeCgroup(t.TempDir())
	if c.cgroup == noCgroup {
		t.Skip("this user can't make a cgroup here")
	}
	cmd := exec.Command("/bin/sh", "-c", "setsid sh -c 'setsid sleep 300 & sleep 300' & wait")
	cmd.SysProcAttr = role.OwnSession()
	folder, err := c.cgroup.start(cmd.SysProcAttr)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	folder.Close()
	if err != nil {
		_ = c.cgroup.remove()
		t.Skip(err) // a kernel before 5.7, or missing permission
	}
	const all = 4 // the shell, the inner shell, and what each has started
	within(t, "the processes", func() bool {
		got := s.members(c, index(processes()))
		return len(got) == all && slices.Contains(got, cmd.Process.Pid)
	})
	s.killAll(c)
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the first process ended with %v", err)
	}
	within(t, "the end of the processes", func() bool { return !c.cgroup.populated() })
	if err := c.cgroup.remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(string(c.cgroup)); !os.IsNotExist(err) {
		t.Errorf("the cgroup is left: %v", err)
	}
}
