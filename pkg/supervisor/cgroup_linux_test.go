package supervisor

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/minikctl/minikctl/pkg/supervisor/role"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

func TestCgroupDir(t *testing.T) {
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
		if got := cgroupDir(c.cgroups, c.mounts); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestControllerDir(t *testing.T) {
	const mounts = "31 29 0:28 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n32 29 0:29 /pod /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"33 29 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	const cgroups = "5:cpu,cpuacct:/a:b\n4:memory:/pod/x\n3:cpuset:/\n0::/c\n"
	for controller, want := range map[string]string{
		"cpu": "/sys/fs/cgroup/cpu/a:b", "cpuacct": "/sys/fs/cgroup/cpu/a:b", "memory": "/sys/fs/cgroup/memory/x", "cpuset": "", "pids": "",
	} {
		if got := controllerDir(cgroups, mounts, controller); got != want {
			t.Errorf("%s: got %q, want %q", controller, got, want)
		}
	}
}

// TestCgroupHoldsEverySession kills a container whose processes have left its session, without a record of the sessions.
func TestCgroupHoldsEverySession(t *testing.T) {
	s, c := containerOf()
	c.cgroup = makeCgroup(ownCgroup(), t.TempDir(), "c")
	if c.cgroup == noCgroup {
		t.Skip("this user can't make a cgroup here")
	}
	cmd := exec.Command("/bin/sh", "-c", "setsid sh -c 'setsid sleep 300 & sleep 300' & wait")
	cmd.SysProcAttr = role.OwnSession()
	dir, err := c.cgroup.start(cmd.SysProcAttr)
	if err != nil {
		t.Fatal(err)
	}
	err = cmd.Start()
	dir.Close()
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

// TestMemoryOfCgroup limits the memory of a directory with the files of a cgroup.
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

// TestMemoryOfController limits the memory of a directory with the files of a cgroup of version 1. A refused limit changes nothing.
func TestMemoryOfController(t *testing.T) {
	const plain, withSwap = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	g := groupOf(t, map[string]string{plain: "1000000\n", withSwap: "1000000\n"})
	if err := g.setMemory(2000000); err != nil {
		t.Error(err)
	}
	checkFiles(t, g, map[string]string{plain: "2000000\n", withSwap: "2000000\n"})
	if err := os.Remove(g.file(plain)); err != nil {
		t.Fatal(err)
	}
	if err := g.setMemory(3000000); err == nil {
		t.Error("a limit that can't be set is no error")
	}
	checkFiles(t, g, map[string]string{withSwap: "2000000\n"})
}

// groupOf returns a directory with the files of a cgroup.
func groupOf(t *testing.T, files map[string]string) cgroup {
	t.Helper()
	g := cgroup(t.TempDir())
	for name, content := range files {
		if err := os.WriteFile(g.file(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func checkFiles(t *testing.T, g cgroup, want map[string]string) {
	t.Helper()
	for name, content := range want {
		if got, err := os.ReadFile(g.file(name)); err != nil || string(got) != content {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, content)
		}
	}
}

// TestRefusedRelimit: when one of two limits can't be changed, the container keeps both.
func TestRefusedRelimit(t *testing.T) {
	const memory, quota = "memory.limit_in_bytes", "cpu.cfs_quota_us"
	s, c := containerOf()
	c.spec.Memory, c.spec.MilliCPU = 1000000, 100
	c.status.Spec, c.status.Running, c.status.Revision, c.logs = c.spec, true, 1, &logs{}
	withMemory, withCPU := groupOf(t, map[string]string{memory: "1000000\n"}), groupOf(t, nil)
	c.status.MemoryGroup, c.status.CPUGroup = string(withMemory), string(withCPU)
	if _, err := s.relimit("c", &wire.Limits{Memory: 2000000, MilliCPU: 200}); err == nil || !strings.Contains(err.Error(), "change the CPU limit") {
		t.Errorf("got %v", err)
	}
	checkFiles(t, withMemory, map[string]string{memory: "1000000\n"})
	if got := c.status.Limits(); got.Memory != 1000000 || got.MilliCPU != 100 {
		t.Errorf("the limits are %+v", got)
	}
}

// TestEnforcedMemory lets the kernel enforce a limit, where it does, and changes it before.
func TestEnforcedMemory(t *testing.T) {
	s, c := containerOf()
	s.root = t.TempDir()
	c.spec.StateDir, c.spec.Memory = s.root+"/c", 20<<20
	if err := os.Mkdir(c.spec.StateDir, 0o700); err != nil { // for its state
		t.Fatal(err)
	}
	if !enableMemory(s.root, c.spec.StateDir) {
		t.Skip("the kernel does not limit the memory of this user's cgroups here")
	}
	start(t, s, c, "head -c 200000000 /dev/zero | tail -n 1 >/dev/null; sleep 300", func() {
		if _, err := s.relimit(c.spec.ID, &wire.Limits{Memory: 50 << 20}); err != nil {
			t.Fatal(err)
		}
		limit := ""
		for _, path := range []string{c.status.Cgroup + "/" + memoryFile, c.status.MemoryGroup + "/memory.limit_in_bytes"} {
			b, _ := os.ReadFile(path) // one of them is there
			limit += string(b)
		}
		if limit != "52428800\n" {
			t.Errorf("after a change the limit is %q", limit)
		}
		for _, u := range s.limited() {
			t.Errorf("%s is watched, too", u.spec.ID)
		}
	}, func() {
		within(t, "the kernel's kill", func() bool { return c.cgroup.outOfMemory() || cgroup(c.status.MemoryGroup).outOfMemory() })
		s.endOutOfMemory()
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.status.MemoryGroup != "" && c.reason != oomKilled {
		t.Errorf("the reason is %q", c.reason)
	}
}

// TestEnforcedPIDs: the containers of a pod have a limit of processes together, and the cgroups are removed with the last of them.
func TestEnforcedPIDs(t *testing.T) {
	s, c := containerOf()
	s.root = t.TempDir()
	if !enablePIDs(s.root) {
		t.Skip("the kernel does not limit the processes of this user's cgroups here")
	}
	other := &container{spec: &wire.Spec{ID: "d", Pod: "p", StateDir: s.root + "/d", PodPIDs: 30}, ended: make(chan struct{})}
	c.spec.Pod, c.spec.StateDir, c.spec.PodPIDs = "p", s.root+"/c", 30
	const many = "i=0; while [ $i -lt 20 ]; do sleep 300 & i=$((i+1)); done; wait"
	end := func(c *container) {
		s.signal(c, syscall.SIGKILL)
		s.killAll(c)
	}
	start(t, s, c, many, func() {}, func() {
		start(t, s, other, many, func() {}, func() {
			within(t, "a refused process", func() bool {
				n, _ := number(c.status.PodGroup+"/pids.events", "max ")
				return n > 0
			})
			if n, ok := number(c.status.PodGroup+"/pids.current", ""); !ok || n > 30 {
				t.Errorf("the pod has %d processes", n)
			}
			end(other)
		})
		if c.status.PodGroup == "" || c.status.PodGroup != other.status.PodGroup {
			t.Errorf("the cgroups of the pod are %q and %q", c.status.PodGroup, other.status.PodGroup)
		}
		if _, err := os.Stat(c.status.PodGroup); err != nil {
			t.Error("the cgroup of the pod was removed with the first container")
		}
		end(c)
	})
	for _, g := range []string{c.status.Cgroup, c.status.PodGroup} {
		if _, err := os.Stat(g); !os.IsNotExist(err) {
			t.Errorf("the cgroup %s is left: %v", g, err)
		}
	}
}

// TestDropEmptyGroups: the next supervisor removes the cgroups that a killed one has left, unless they have a process.
func TestDropEmptyGroups(t *testing.T) {
	s, c := containerOf()
	s.root = t.TempDir()
	c.spec.StateDir, c.spec.Memory, c.spec.MilliCPU, c.spec.Pod, c.spec.PodPIDs = s.root+"/c", 50<<20, 100, "p", 30
	var all []cgroup
	start(t, s, c, "sleep 300", func() {
		all = append(oldGroups(c, &c.status), c.cgroup, cgroup(c.status.PodGroup))
		left := []cgroup{
			makeCgroup(ownCgroup(), s.root, "other"), makeCPUGroup(s.root, "other", 100), makeMemoryGroup(s.root, "other", 1<<20),
			makePodGroup(s.root, "other", 10), makePodController(s.root, "other", 10),
		}
		for _, parent := range []string{ownCgroup(), ownController("memory")} { // of a version without the directory in the name
			old := cgroup(fmt.Sprintf("%s/minikctl-%016x", parent, hash64("/of an older version")))
			if parent != "" && os.Mkdir(string(old), 0o755) == nil {
				left = append(left, old)
				defer old.removeIfEmpty()
			}
		}
		dropEmptyGroups(s.root)
		for _, g := range left {
			if _, err := os.Stat(string(g)); g != noCgroup && !os.IsNotExist(err) {
				t.Errorf("%s is left: %v", g, err)
			}
		}
		for _, g := range all {
			if _, err := os.Stat(string(g)); g != noCgroup && err != nil {
				t.Errorf("%s was removed: %v", g, err)
			}
		}
	}, func() {
		s.signal(c, syscall.SIGKILL)
		s.killAll(c)
	})
}

// start runs a shell's script in the cgroups of a container. It calls before once the shell is in them, and after once the script runs. Then it
// waits for the end of the shell, and removes the cgroups.
func start(t *testing.T, s *supervisor, c *container, script string, before, after func()) {
	t.Helper()
	s.makeCgroups(c)
	cmd := exec.Command("/bin/sh", "-c", "read go; "+script)
	cmd.SysProcAttr = role.OwnSession()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := c.cgroup.start(cmd.SysProcAttr)
	if err == nil {
		err = cmd.Start()
	}
	dir.Close()
	defer func() {
		if err := s.removeCgroups(c); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Skip(err) // a kernel before 5.7, or missing permission
	}
	first := wire.Process{PID: cmd.Process.Pid, Born: born(cmd.Process.Pid)}
	s.confine(c, &child{Process: first, cgroup: c.cgroup})
	s.mu.Lock()
	c.status.PID, c.status.Born, c.status.Boot, c.status.Running, c.status.Cgroup = first.PID, first.Born, s.boot, true, string(c.cgroup)
	c.status.Revision, c.status.Spec, c.logs = 1, c.spec, &logs{}
	s.containers[c.spec.ID] = c
	s.mu.Unlock()
	defer func() {
		s.signal(c, syscall.SIGKILL) // in case the test has failed
		s.killAll(c)
		within(t, "the end of the processes", func() bool { return !c.cgroup.populated() })
	}()
	before()
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Error(err)
	}
	after()
	if cmd.Wait() == nil {
		t.Error("the first process ended by itself")
	}
}
