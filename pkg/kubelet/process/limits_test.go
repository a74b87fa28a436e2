package process_test

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/kubelet/runtimetest"
)

func TestMemoryLimit(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory limits are not looked at here")
	}
	m := newMachine(t)
	// The second program holds a line of 200 MB. It counts although it runs in another session.
	spec := kubelet.ContainerSpec{Command: []string{"/bin/sh", "-c",
		`setsid sh -c '(head -c 200000000 /dev/zero; echo ready >&2; sleep 1000) | tail -n 1 >/dev/null'`}}
	spec.Limits.Memory = 100 << 20
	if c := m.ended(m.start("pod", spec)); c.Reason != "OOMKilled" || c.ExitCode != 137 || c.Signal != 9 {
		t.Errorf("got %+v", c)
	}
	spec.Name, spec.Limits = "pod", kubelet.Limits{PodMemory: 100 << 20}
	if c := m.ended(m.start("pod", spec)); c.Reason != "OOMKilled" || c.ExitCode != 137 {
		t.Errorf("with the limit of the pod: got %+v", c)
	}
	spec.Name, spec.Limits = "c", kubelet.Limits{Memory: 400 << 20, PodMemory: 500 << 20}
	spec.Attempt = 1
	id := m.start("pod", spec)
	m.wait("the meal", func() bool { return m.output(id) != "" })
	if c := m.find(id); !c.Running {
		t.Errorf("got %+v", c)
	}
}

func TestUser(t *testing.T) {
	m := newMachine(t)
	uid, gid := int64(54321), int64(54322)
	spec := kubelet.ContainerSpec{
		Command: []string{"/bin/sh", "-c", "id -u; id -g; id -G; echo again >/dev/stdout; echo x > file; grep NoNewPrivs /proc/self/status"},
		User:    &uid, Group: &gid, Security: kubelet.Security{NoNewPrivileges: true},
	}
	if os.Getuid() != 0 && !runtimetest.ShowsMounts(m.rt) {
		spec.Name = "c"
		_, err := m.rt.Start(t.Context(), "pod", spec)
		if want := "run as gid 54322: operation not permitted"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		return
	}
	// The user may not enter the parent directory: the process starts in its own directory.
	got := m.run(spec)
	if want := "54321\n54322\n54322\nagain\n"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if runtime.GOOS == "linux" && !strings.HasSuffix(got, "NoNewPrivs:\t1\n") {
		t.Errorf("got %q", got)
	}
}

// TestUserBestEffort: with BestEffort a container starts as the daemon's user where it can't have its own, and the pod gets an Event.
func TestUserBestEffort(t *testing.T) {
	m := newMachineWith(t, func(c *process.Config) { c.BestEffort = true })
	uid := int64(54321)
	spec := kubelet.ContainerSpec{Command: []string{"id", "-u"}, User: &uid}
	want, events := "54321\n", 0
	if os.Getuid() != 0 && !runtimetest.ShowsMounts(m.rt) {
		want, events = strconv.Itoa(os.Getuid())+"\n", 1
	}
	if got := m.run(spec); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := m.rt.Unhonoured(spec); len(got) != events {
		t.Errorf("got %q", got)
	}
}

func TestUnhonoured(t *testing.T) {
	m := newMachine(t)
	if got := m.rt.Unhonoured(kubelet.ContainerSpec{Mounts: []kubelet.Mount{{Host: "/srv", Container: "/srv"}}}); len(got) != 0 {
		t.Errorf("got %q", got)
	}
	got := strings.Join(m.rt.Unhonoured(kubelet.ContainerSpec{
		Mounts: []kubelet.Mount{{Host: "/a", Container: "/etc/config", ReadOnly: true}},
		Limits: kubelet.Limits{MilliCPU: 100},
	}), "\n")
	atPaths := runtimetest.ShowsMounts(m.rt)
	for text, want := range map[string]bool{"/etc/config": !atPaths, "$MINIKCTL_ROOT": !atPaths, "written": !atPaths, "CPU": !enforcesCPU(m.rt)} {
		if strings.Contains(got, text) != want {
			t.Errorf("got %q, with %q: want %t", got, text, want)
		}
	}
}

func TestNestedMounts(t *testing.T) {
	m := newMachine(t)
	if runtimetest.ShowsMounts(m.rt) {
		t.Skip("this machine shows nested mounts: the test Mounts of the suite has some")
	}
	outer, inner := t.TempDir(), t.TempDir()
	spec := kubelet.ContainerSpec{
		Command: []string{"/bin/sh", "-c", "ls -A data"},
		Mounts:  []kubelet.Mount{{Host: inner, Container: "/data/sub"}, {Host: outer, Container: "/data/"}},
	}
	if got := m.run(spec); got != "" {
		t.Errorf("the outer volume holds %q", got)
	}
	if left, err := os.ReadDir(outer); err != nil || len(left) > 0 {
		t.Errorf("the outer volume holds %v, %v", left, err)
	}
	if got := strings.Join(m.rt.Unhonoured(spec), "\n"); !strings.Contains(got, "/data/sub in /data/") {
		t.Errorf("got %q", got)
	}
}

// TestMountOverFilesOfTheMachine starts a container whose mount can't hide the machine's files.
func TestMountOverFilesOfTheMachine(t *testing.T) {
	m := newMachine(t)
	if runtimetest.ShowsMounts(m.rt) {
		t.Skip("this machine hides files behind mounts: the test MountsAtTheirPaths of the suite does so")
	}
	if _, err := m.rt.StartPod(t.Context(), kubelet.PodSpec{UID: "pod"}); err != nil {
		t.Fatal(err)
	}
	spec := kubelet.ContainerSpec{Name: "c", Command: []string{"true"}, Mounts: []kubelet.Mount{{Host: t.TempDir(), Container: "/usr/lib"}}}
	if _, err := m.rt.Start(t.Context(), "pod", spec); err == nil || !strings.Contains(err.Error(), "mount /usr/lib: this path has files of the machine") {
		t.Errorf("got %v", err)
	}
	spec.Command = []string{"true", "$(MINIKCTL_ROOT)/usr/lib"}
	if _, err := m.rt.Start(t.Context(), "pod", spec); err != nil {
		t.Error(err)
	}
	best := newMachineWith(t, func(c *process.Config) { c.BestEffortMounts = true })
	spec.Command = []string{"/bin/sh", "-c", "[ $(ls -A /usr/lib | wc -l) -gt 0 ] && ls -A $MINIKCTL_ROOT/usr/lib && echo both"}
	if got := best.run(spec); got != "both\n" {
		t.Errorf("with best effort: got %q", got)
	}
}

func enforcesCPU(r kubelet.Runtime) bool {
	return slices.ContainsFunc(r.(kubelet.Describer).Features(), func(f kubelet.Feature) bool { return f.Name == "CPULimits" && f.OK })
}

// TestPodPIDs: the kernel refuses processes to a pod that has as many as it may, and to commands in its containers.
func TestPodPIDs(t *testing.T) {
	const limit = 60
	m := newMachineWith(t, func(c *process.Config) { c.PodPIDs = limit })
	spec := kubelet.ContainerSpec{Command: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 80 ]; do sleep 1000 & i=$((i+1)); done"}}
	enforced := slices.ContainsFunc(m.rt.Features(), func(f kubelet.Feature) bool { return f.Name == "PIDLimits" && f.OK })
	if got := strings.Join(m.rt.Unhonoured(spec), "\n"); strings.Contains(got, "the limit of the pod's processes is not enforced") == enforced {
		t.Errorf("enforced: %t, but the pod's Event is %q", enforced, got)
	}
	if !enforced {
		t.Skip("this daemon can't create cgroups with a pids controller")
	}
	id := m.start("pod", spec)
	if c := m.ended(id); c.ExitCode == 0 || !strings.Contains(m.output(id), "fork") {
		t.Errorf("got %+v with the output %q", c, m.output(id))
	}
	quiet := m.shell("sleep 1000")
	if code, err := m.rt.Exec(t.Context(), quiet, spec.Command, kubelet.Streams{}); err != nil || code == 0 {
		t.Errorf("a command: got %d, %v", code, err)
	}
}
