package supervisor

import (
	"bufio"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/role"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

func TestEndedSessionsAreForgotten(t *testing.T) {
	s := &supervisor{}
	c := &container{spec: &wire.Spec{ID: "c", StateDir: t.TempDir()}}
	self := wire.Process{PID: os.Getpid(), Born: born(os.Getpid())}
	const none = 1 << 30 // above every process number
	s.joinSession(c, self)
	for i := range 10 * maxRecordedSessions {
		s.joinSession(c, wire.Process{PID: none + i, Born: 1})
	}
	if n := len(c.status.Leaders); n > maxRecordedSessions+1 {
		t.Errorf("%d sessions are recorded", n)
	}
	if !slices.Contains(c.status.Leaders, self) {
		t.Error("the session of a living leader is dropped")
	}
}

func TestCurrent(t *testing.T) {
	leader := func(pid int) wire.Process { return wire.Process{PID: pid, Born: 3} }
	all := []process{
		{Process: leader(5), session: 1},
		{Process: leader(6), session: 6, zombie: true},
		{Process: leader(7), session: 7},
		{Process: wire.Process{PID: 9, Born: 4}, session: 9},
	}
	recorded := []wire.Process{leader(1), leader(5), leader(6), leader(7), leader(8), leader(9)}
	if got := current(recorded, all); !slices.Equal(got, []wire.Process{leader(1), leader(5), leader(7)}) {
		t.Errorf("got %v", got)
	}
}

func TestDropReused(t *testing.T) {
	old, other := wire.Process{PID: 7, Born: 1}, wire.Process{PID: 8, Born: 1}
	c := &container{status: wire.Status{Leaders: []wire.Process{old, other}}}
	s := &supervisor{containers: map[string]*container{"c": c}}
	s.dropReused(old)
	if len(c.status.Leaders) != 2 {
		t.Errorf("a session is dropped although its leader lives: %v", c.status.Leaders)
	}
	s.dropReused(wire.Process{PID: 7, Born: 2})
	if !slices.Equal(c.status.Leaders, []wire.Process{other}) {
		t.Errorf("got %v", c.status.Leaders)
	}
}

// session is a session of a process that no container has started.
type session struct {
	leader, child wire.Process
}

// newSession starts a session whose leader has one child. env is the environment of both.
func newSession(t *testing.T, env ...string) session {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", "sleep 300 & echo $!; read end")
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = role.OwnSession()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	s := session{identify(t, cmd.Process.Pid), identify(t, pid)}
	t.Cleanup(func() {
		signalGroup(s.leader, syscall.SIGKILL)
		process{Process: s.child}.signal(syscall.SIGKILL)
		in.Close()
		_ = cmd.Wait() // it was killed
	})
	return s
}

func identify(t *testing.T, pid int) wire.Process {
	t.Helper()
	p := wire.Process{PID: pid, Born: born(pid)}
	if p.Born == 0 {
		t.Fatalf("process %d is not there", pid)
	}
	return p
}

// endLeader kills the leader and waits until only the session still uses its number.
func (s session) endLeader(t *testing.T) {
	t.Helper()
	process{Process: s.leader}.signal(syscall.SIGKILL)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(s.leader.PID, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
}

func (p process) alive() bool { return born(p.PID) == p.Born }

func (s session) alive() (leader, child bool) {
	return process{Process: s.leader}.alive(), process{Process: s.child}.alive()
}

// containerOf returns a container whose recorded sessions are those of leaders.
func containerOf(leaders ...wire.Process) (*supervisor, *container) {
	c := &container{
		spec:   &wire.Spec{ID: "c", StateDir: "/container"},
		status: wire.Status{Leaders: leaders, PID: 1 << 30, Born: 1},
	}
	return &supervisor{containers: map[string]*container{"c": c}}, c
}

// TestReusedNumber: the number of a recorded session now belongs to another process.
func TestReusedNumber(t *testing.T) {
	other := newSession(t)
	s, c := containerOf(wire.Process{PID: other.leader.PID, Born: other.leader.Born - 1})
	if got := s.members(c, index(processes())); len(got) > 0 {
		t.Errorf("members: %v", got)
	}
	s.killAll(c)
	if leader, child := other.alive(); !leader || !child {
		t.Errorf("processes of another session were killed: leader lives: %v, child lives: %v", leader, child)
	}
}

// TestReusedNumberOfFirstProcess: the number of a container's first process now belongs to another process.
func TestReusedNumberOfFirstProcess(t *testing.T) {
	other := newSession(t)
	s, c := containerOf()
	c.status.PID, c.status.Born, c.status.Running = other.leader.PID, other.leader.Born-1, true
	s.signal(c, syscall.SIGKILL)
	s.killAll(c)
	if leader, child := other.alive(); !leader || !child {
		t.Errorf("processes of another session were killed: leader lives: %v, child lives: %v", leader, child)
	}
}

// TestReusedNumberWithoutLeader: the number of a recorded session now belongs to a later session, whose leader has ended,
// too.
func TestReusedNumberWithoutLeader(t *testing.T) {
	if orphanReaper > 0 {
		t.Skip("the lineage of orphans is unknown here")
	}
	for name, env := range map[string]string{
		"not of a container":   "OTHER=1",
		"of another container": wire.RootVariable + "=/other/root",
	} {
		t.Run(name, func(t *testing.T) {
			other := newSession(t, env)
			s, c := containerOf(wire.Process{PID: other.leader.PID, Born: other.leader.Born - 1})
			other.endLeader(t)
			s.killAll(c)
			if _, child := other.alive(); !child {
				t.Error("a process of another session was killed")
			}
		})
	}
}

// TestSessionWithoutLeader: a container's processes are found after the leader of their session has ended.
func TestSessionWithoutLeader(t *testing.T) {
	own := newSession(t, wire.RootVariable+"=/container/root")
	s, c := containerOf(own.leader)
	own.endLeader(t)
	s.killAll(c)
	within(t, "the end of the process", func() bool { _, child := own.alive(); return !child })
}

func TestSessionWithLeader(t *testing.T) {
	own := newSession(t)
	s, c := containerOf(own.leader)
	got := s.members(c, index(processes()))
	slices.Sort(got)
	want := []int{own.leader.PID, own.child.PID}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("members: %v, want %v", got, want)
	}
	s.killAll(c)
	within(t, "the end of the processes", func() bool { leader, child := own.alive(); return !leader && !child })
}

func within(t *testing.T, what string, cond func() bool) {
	t.Helper()
	over := time.NewTimer(time.Minute)
	defer over.Stop()
	for !cond() {
		select {
		case <-over.C:
			t.Fatalf("no sign of %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestDescends(t *testing.T) {
	at := func(pid, parent int) process { return process{Process: wire.Process{PID: pid}, parent: parent} }
	self := os.Getpid()
	m := membership{all: index([]process{at(1, 0), at(self, 1), at(1<<22+1, self), at(1<<22+2, 1<<22+1), at(1<<22+3, 1<<22+3)})}
	for pid, want := range map[int]bool{1<<22 + 1: true, 1<<22 + 2: true, 1<<22 + 3: false} {
		if got := m.descends(m.all[pid]); got != want {
			t.Errorf("process %d descends from the supervisor: %v, want %v", pid, got, want)
		}
	}
}
