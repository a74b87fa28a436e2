package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// machine is a host with one node and one pod.
type machine struct {
	*testing.T
	root string
	host *process.Host
	rt   *process.Runtime
	pod  kubelet.Pod

	options []func(*process.Config)

	killed int // how often the supervisor was killed; each time it may lose a line that it has read and not yet written
}

func newMachine(t *testing.T) *machine { return newMachineWith(t) }

// newMachineWith is newMachine with options for the host.
func newMachineWith(t *testing.T, options ...func(*process.Config)) *machine {
	m := &machine{T: t, root: t.TempDir(), options: options}
	m.open()
	t.Cleanup(func() {
		if err := purge(m.host, m.root); err != nil {
			t.Error(err)
		}
	})
	var err error
	m.pod, err = m.rt.StartPod(t.Context(), kubelet.PodSpec{UID: "pod", Namespace: "default", Name: "pod"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) open() {
	m.Helper()
	var err error
	if m.host, err = open(m.root, m.options...); err != nil {
		m.Fatal(err)
	}
	m.rt = m.host.Runtime("node")
}

var count int

func (m *machine) start(uid types.UID, spec kubelet.ContainerSpec) kubelet.ContainerID {
	m.Helper()
	count++
	spec.Name = fmt.Sprintf("c%d", count)
	if spec.LogPath == "" {
		spec.LogPath = m.log(spec.Name)
	}
	id, err := m.rt.Start(m.Context(), uid, spec)
	if err != nil {
		m.Fatal(err)
	}
	return id
}

func (m *machine) log(name string) string { return filepath.Join(m.root, "logs", name+".log") }

func (m *machine) shell(script string) kubelet.ContainerID {
	m.Helper()
	return m.start("pod", kubelet.ContainerSpec{Command: []string{"/bin/sh", "-c", script}})
}

// output returns the text of a container's log.
func (m *machine) output(id kubelet.ContainerID) string {
	m.Helper()
	c := m.find(id)
	b, err := os.ReadFile(m.log(c.Name))
	if err != nil && !os.IsNotExist(err) {
		m.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(line, " ", 4)
		out.WriteString(f[3])
	}
	return out.String()
}

func (m *machine) find(id kubelet.ContainerID) kubelet.Container {
	m.Helper()
	pods, err := m.rt.Pods(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	for _, p := range pods {
		for _, c := range p.Containers {
			if c.ID == id {
				return c
			}
		}
	}
	m.Fatalf("%s is not there: %+v", id, pods)
	return kubelet.Container{}
}

func (m *machine) ended(id kubelet.ContainerID) kubelet.Container {
	m.Helper()
	m.wait("the end of "+string(id), func() bool { return !m.find(id).Running })
	return m.find(id)
}

func (m *machine) wait(what string, cond func() bool) {
	m.Helper()
	over := time.NewTimer(time.Minute)
	defer over.Stop()
	for !cond() {
		select {
		case <-over.C:
			m.Fatalf("no sign of %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (m *machine) touch(name string) {
	m.Helper()
	if err := os.WriteFile(filepath.Join(m.root, name), nil, 0o600); err != nil {
		m.Fatal(err)
	}
}

// supervisor returns the PID of the supervisor.
func (m *machine) supervisor() int {
	m.Helper()
	if _, err := m.rt.Pods(m.Context()); err != nil { // waits for it
		m.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(m.root, "runtime", "run", "supervisor.lock"))
	if err != nil {
		m.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		m.Fatal(err)
	}
	return pid
}

func (m *machine) killSupervisor() {
	m.Helper()
	m.killed++
	pid := m.supervisor()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		m.Fatal(err)
	}
	m.wait("the end of the supervisor", func() bool { return syscall.Kill(pid, 0) != nil })
}

// run runs an act in the pod and returns its output.
func (m *machine) run(spec kubelet.ContainerSpec) string {
	m.Helper()
	id := m.start("pod", spec)
	if c := m.ended(id); c.ExitCode != 0 {
		m.Fatalf("exit code %d: %s", c.ExitCode, m.output(id))
	}
	return m.output(id)
}

// loop returns a script that prints increasing numbers until a file exists.
func (m *machine) loop(file, then string) string {
	return "i=0; while [ ! -e '" + m.root + "/" + file + "' ]; do i=$((i+1)); echo $i; sleep 0.001; done; " + then
}

func (m *machine) counted(id kubelet.ContainerID) int {
	m.Helper()
	last, gaps := 0, 0
	for line := range strings.Lines(m.output(id)) {
		n, err := strconv.Atoi(strings.TrimSpace(line))
		if err != nil || n <= last {
			m.Fatalf("%q follows %d in the log", line, last)
		}
		if n != last+1 {
			gaps++
		}
		last = n
	}
	if gaps > m.killed {
		m.Fatalf("output was lost %d times, and the supervisor killed %d times", gaps, m.killed)
	}
	return last
}

func TestSupervisorKilled(t *testing.T) {
	m := newMachine(t)
	id := m.shell(m.loop("go", "exit 12"))
	before := m.find(id)
	for range 3 {
		old := m.supervisor()
		m.killSupervisor()
		m.wait("a new supervisor", func() bool { return m.supervisor() != old })
		after := m.find(id)
		if !after.Running || after.PID != before.PID || syscall.Kill(after.PID, 0) != nil {
			t.Fatalf("before %+v, after %+v", before, after)
		}
		n := m.counted(id)
		m.wait("more output", func() bool { return m.counted(id) > n })
	}
	m.touch("go")
	got := m.ended(id)
	known := got.ExitCode == 12 && got.Reason == ""
	missed := got.ExitCode == 137 && got.Reason == "ContainerStatusUnknown" // before Linux 6.15
	if !known && !missed {
		t.Errorf("got %+v", got)
	}
	next := m.shell("exit 13")
	if c := m.ended(next); c.ExitCode != 13 {
		t.Errorf("after that: got %+v", c)
	}
}

func TestSupervisorKilledWhileStopped(t *testing.T) {
	m := newMachine(t)
	id := m.shell("exec sleep 1000")
	m.killSupervisor()
	if err := m.rt.Stop(t.Context(), id, time.Second); err != nil {
		t.Fatal(err)
	}
	if c := m.find(id); c.Running || c.ExitCode < 137 {
		t.Errorf("got %+v", c)
	}
}

// TestExitMissed ends a container while no supervisor runs. Its exit code is known on Linux since 6.15, if the keeper lives.
func TestExitMissed(t *testing.T) {
	for _, keeper := range []bool{true, false} {
		t.Run(fmt.Sprintf("keeper %v", keeper), func(t *testing.T) {
			m := newMachine(t)
			id := m.shell(m.loop("go", "echo last; exit 12"))
			pid := m.find(id).PID
			m.closeAndKill(keeper)
			m.touch("go")
			m.wait("the end of the process", func() bool { return syscall.Kill(pid, 0) != nil })
			m.open()
			got := m.ended(id)
			known := keeper && got.ExitCode == 12 && got.Reason == ""
			missed := got.ExitCode == 137 && got.Reason == "ContainerStatusUnknown" &&
				got.Message == "The container could not be located when the pod was terminated"
			if !known && !missed || got.Finished.IsZero() {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// closeAndKill ends the host, and kills the supervisor and, unless keep, the keeper.
func (m *machine) closeAndKill(keep bool) {
	m.Helper()
	m.killed++
	supervisor, keeper := m.supervisor(), m.keeper()
	if err := m.host.Close(); err != nil {
		m.Fatal(err)
	}
	if !keep && keeper != 0 {
		// The supervisor could start another one otherwise.
		if err := syscall.Kill(supervisor, syscall.SIGSTOP); err != nil {
			m.Fatal(err)
		}
		if err := syscall.Kill(keeper, syscall.SIGKILL); err != nil {
			m.Fatal(err)
		}
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		m.Fatal(err)
	}
	m.wait("the end of the supervisor", func() bool { return syscall.Kill(supervisor, 0) != nil })
}

// TestOutputSurvivesSupervisor ends containers while no supervisor runs.
func TestOutputSurvivesSupervisor(t *testing.T) {
	m := newMachine(t)
	for i := range 5 {
		file := "go" + strconv.Itoa(i)
		id := m.shell("while [ ! -e '" + m.root + "/" + file + "' ]; do sleep 0.001; done; echo last words")
		pid := m.supervisor()
		// Output that the supervisor has read and not yet written is lost with it: it must not read any.
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		m.touch(file)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		m.ended(id)
		if got := m.output(id); got != "last words\n" {
			t.Errorf("got %q", got)
		}
		m.wait("a new supervisor", func() bool { return m.supervisor() != pid })
	}
}

// TestDaemonAndSupervisorKilled kills daemon and supervisor while a container writes more than a pipe holds.
func TestDaemonAndSupervisorKilled(t *testing.T) {
	m := newMachine(t)
	id := m.start("pod", kubelet.ContainerSpec{Command: []string{"seq", "300000"}})
	supervisor := m.supervisor()
	if err := m.host.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	m.wait("the end of the supervisor", func() bool { return syscall.Kill(supervisor, 0) != nil })
	m.open()
	c := m.ended(id)
	if c.Signal != 0 && c.Reason == "" {
		t.Errorf("got %+v", c)
	}
	if !strings.HasSuffix(m.output(id), "\n300000\n") {
		t.Errorf("the end of the output is lost: %q", m.output(id)[max(0, len(m.output(id))-20):])
	}
}

func TestPurgeLeavesNothing(t *testing.T) {
	m := newMachine(t)
	id := m.shell("setsid sleep 1000 & sleep 1000")
	pid, supervisor := m.find(id).PID, m.supervisor()
	if err := m.host.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []int{pid, supervisor} {
		m.wait("the end of "+strconv.Itoa(p), func() bool { return syscall.Kill(p, 0) != nil })
	}
	if left, err := os.ReadDir(filepath.Join(m.root, "runtime")); !os.IsNotExist(err) {
		t.Errorf("left behind: %v, %v", left, err)
	}
	m.open() // for the cleanup, which purges again
}

func TestStopAllKeepsThePods(t *testing.T) {
	m := newMachine(t)
	id := m.shell("trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done")
	m.wait("the trap", func() bool { return m.output(id) != "" })
	if err := m.host.StopAll(t.Context(), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := m.host.Close(); err != nil {
		t.Fatal(err)
	}
	m.open()
	if c := m.find(id); c.Running || c.ExitCode != 3 {
		t.Errorf("got %+v", c)
	}
}

func TestSupervisorExitsWhenItsDirIsRemoved(t *testing.T) {
	if testing.Short() {
		t.Skip("takes five seconds")
	}
	m := newMachine(t)
	pid, supervisor := m.find(m.shell("exec sleep 1000")).PID, m.supervisor()
	if err := m.host.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(m.root, "runtime")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []int{pid, supervisor} {
		m.wait("the end of "+strconv.Itoa(p), func() bool { return syscall.Kill(p, 0) != nil })
	}
	m.open()
}

func TestLongPath(t *testing.T) {
	root := filepath.Join(t.TempDir(), strings.Repeat("long/", 40))
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	m := &machine{T: t, root: root}
	m.open()
	defer func() {
		if err := m.host.Purge(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := m.rt.StartPod(t.Context(), kubelet.PodSpec{UID: "pod"}); err != nil {
		t.Fatal(err)
	}
	if c := m.ended(m.shell("exit 4")); c.ExitCode != 4 {
		t.Errorf("got %+v", c)
	}
}

// TestContainerWithoutPod: a container whose pod was removed while the container started is stopped and removed by the next host.
func TestContainerWithoutPod(t *testing.T) {
	m := newMachine(t)
	if _, err := m.rt.StartPod(t.Context(), kubelet.PodSpec{UID: "other"}); err != nil {
		t.Fatal(err)
	}
	stays := m.shell("sleep 1000")
	id := m.start("other", kubelet.ContainerSpec{Command: []string{"/bin/sh", "-c", "sleep 1000"}})
	if err := m.host.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(m.root, "runtime", "pods", "other.json")); err != nil {
		t.Fatal(err)
	}
	m.open()
	m.wait("the removal of the container", func() bool {
		_, err := os.Stat(filepath.Join(m.root, "runtime", wire.Containers, string(id)))
		return os.IsNotExist(err)
	})
	if c := m.find(stays); !c.Running {
		t.Errorf("the container of a pod: got %+v", c)
	}
}

// TestDamagedRecord opens a host whose records of pods are damaged, as after a loss of power. A kubelet starts these pods again.
func TestDamagedRecord(t *testing.T) {
	m := newMachine(t)
	if err := m.host.Close(); err != nil {
		t.Fatal(err)
	}
	records := filepath.Join(m.root, "runtime", "pods")
	for _, name := range []string{"pod.json", "other.json"} {
		if err := os.WriteFile(filepath.Join(records, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(records, "third.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.open()
	if pods, err := m.rt.Pods(t.Context()); err != nil || len(pods) > 0 {
		t.Errorf("got %+v, %v", pods, err)
	}
	if _, err := m.rt.StartPod(t.Context(), m.pod.PodSpec); err != nil {
		t.Error(err)
	}
	m.shell("exit 0")
}
