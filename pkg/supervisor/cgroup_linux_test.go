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

func TestControllerFolder(t *testing.T) {
	const mounts = "31 29 0:28 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n32 29 0:29 /pod /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"33 29 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	const cgroups = "5:cpu,cpuacct:/a:b\n4:memory:/pod/x\n3:cpuset:/\n0::/c\n"
	for controller, want := range map[string]string{
		"cpu": "/sys/fs/cgroup/cpu/a:b", "cpuacct": "/sys/fs/cgroup/cpu/a:b", "memory": "/sys/fs/cgroup/memory/x", "cpuset": "", "pids": "",
	} {
		if got := controllerFolder(cgroups, mounts, controller); got != want {
			t.Errorf("%s: got %q, want %q", controller, got, want)
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

// TestMemoryOfCgroup limits the memory of a folder with the files of a cgroup.
func TestMemoryOfCgroup(t *testing.T) {
	g := cgroup(t.TempDir())
	if g.limitMemory(1 << 20) {
		t.Error("a cgroup without a memory controller is limited")
	}
	if entries, err := os.ReadDir(string(g)); err != nil || len(entries) > 0 {
		t.Errorf("files are created in the cgroup: %v, %v", entries, err)
	}
	put := func(name, content string) {
		if err := os.WriteFile(g.file(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(memoryFile, "")
	put("memory.oom.group", "")
	if !g.limitMemory(1 << 20) {
		t.Error("a cgroup with a memory controller is not limited")
	}
	for name, want := range map[string]string{memoryFile: "1048576", "memory.oom.group": "1"} {
		if got, err := os.ReadFile(g.file(name)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %s", name, got, err, want)
		}
	}
	for content, want := range map[string]bool{"": false, "low 0\nmax 12\noom 0\noom_kill 0\n": false, "max 12\noom 1\noom_kill 3\noom_group_kill 1\n": true} {
		put("memory.events", content)
		if got := g.outOfMemory(); got != want {
			t.Errorf("%q: got %t", content, got)
		}
	}
	if noCgroup.limitMemory(1) || noCgroup.outOfMemory() {
		t.Error("no cgroup is limited")
	}
}

// TestEnforcedMemory lets the kernel enforce a limit, where it does.
func TestEnforcedMemory(t *testing.T) {
	if !enableMemory() {
		t.Skip("the kernel does not limit the memory of this user's cgroups here")
	}
	s, c := containerOf()
	c.cgroup = makeCgroup(t.TempDir())
	if !c.cgroup.limitMemory(50 << 20) {
		t.Fatal("the cgroup is not limited")
	}
	defer func() {
		s.killAll(c)
		if err := c.cgroup.remove(); err != nil {
			t.Error(err)
		}
	}()
	cmd := exec.Command("/bin/sh", "-c", "(head -c 200000000 /dev/zero; sleep 300) | tail -n 1 >/dev/null; sleep 300")
	cmd.SysProcAttr = role.OwnSession()
	folder, err := c.cgroup.start(cmd.SysProcAttr)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	folder.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the first process ended with %v", err)
	}
	if !c.cgroup.outOfMemory() {
		t.Error("the kernel has killed nothing")
	}
}
