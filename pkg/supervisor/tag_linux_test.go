package supervisor

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// needTags skips a test where this process can give no process a tag.
func needTags(t *testing.T) {
	t.Helper()
	limit := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Prlimit(0, tagResource, &limit, nil); err != nil {
		t.Skipf("RLIMIT_LOCKS is lower already, or a filter refuses to change it, as in a container of minikctl: %v", err)
	}
}

// TestTagFindsEveryProcess kills a container's processes that have left its sessions and have not its environment.
func TestTagFindsEveryProcess(t *testing.T) {
	needTags(t)
	own, other := newSession(t), newSession(t)
	s, c := containerOf()
	c.status.Tag = tag(own.leader, c.spec.StateDir)
	if c.status.Tag == 0 || !setTag(own.child.PID, c.status.Tag) {
		t.Fatal("no tag can be set")
	}
	if another := tag(other.leader, c.spec.StateDir); another == c.status.Tag {
		t.Fatal("two processes have the same tag")
	}
	own.endLeader(t)
	s.killAll(c)
	within(t, "the end of the process", func() bool { _, child := own.alive(); return !child })
	if leader, child := other.alive(); !leader || !child {
		t.Error("processes without the tag were killed")
	}
}

func TestLimitInFile(t *testing.T) {
	needTags(t)
	own := newSession(t)
	want := tag(own.leader, "/container")
	if got, err := limitInFile(own.leader.PID); err != nil || got != want || want == 0 {
		t.Errorf("got %d, %v, want %d", got, err, want)
	}
}

// TestKillWithoutDescriptors kills a process when no more file can be opened after its pidfd.
func TestKillWithoutDescriptors(t *testing.T) {
	needTags(t)
	own := newSession(t)
	value := tag(own.leader, "/container")
	next, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(next)
	var old unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next) + 1, Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	got := newSearch(value).look(own.leader.PID)
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &old, nil); err != nil {
		t.Fatal(err)
	}
	if got != newlyFound {
		t.Errorf("got %d, want %d", got, newlyFound)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(own.leader.PID, &status, syscall.WUNTRACED, nil); err != nil || !status.Signaled() {
		t.Errorf("the process was not killed: status %#x, %v", status, err)
	}
}

// TestMissed: the end of a process during a scan matters only if the process may have been the container's.
func TestMissed(t *testing.T) {
	needTags(t)
	own, other := newSession(t), newSession(t)
	s := newSearch(tag(own.leader, "/container"))
	pids := []int{other.leader.PID, other.child.PID}
	scan := func() (found int, missed bool) {
		return s.scanList(func(do func(int)) error {
			for _, pid := range pids {
				do(pid)
			}
			return nil
		})
	}
	if found, missed := scan(); found != 0 || missed {
		t.Errorf("processes without the tag: found %d, missed %v", found, missed)
	}
	other.endLeader(t)
	if found, missed := scan(); found != 0 || missed {
		t.Errorf("after the end of a process that the last scan has seen: found %d, missed %v", found, missed)
	}
	if _, missed := scan(); !missed {
		t.Error("after the end of an unknown process: not missed")
	}

	pids = []int{own.leader.PID}
	process{Process: own.leader}.signal(syscall.SIGKILL)
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, own.leader.PID, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if _, missed := scan(); !missed {
		t.Error("after the end of a process with the tag: not missed")
	}
	if found, missed := scan(); found != 0 || missed {
		t.Errorf("with a zombie that the last scan has seen: found %d, missed %v", found, missed)
	}
}

// TestMissedWithoutList: a scan that can't list the processes has missed some.
func TestMissedWithoutList(t *testing.T) {
	_, missed := newSearch(lowestTag).scanList(func(func(int)) error { return unix.EMFILE })
	if !missed {
		t.Error("not missed")
	}
}

// TestTagIsReadOnce looks for the members of several containers in one list of processes.
func TestTagIsReadOnce(t *testing.T) {
	needTags(t)
	own := newSession(t)
	p := &process{Process: own.leader}
	first := tag(own.leader, "/container")
	if !p.hasTag(first) {
		t.Fatal("the process has not the tag")
	}
	if !setTag(own.leader.PID, first-1) {
		t.Fatal("no lower tag can be set")
	}
	if p.hasTag(first-1) || !p.hasTag(first) {
		t.Error("the tag was read again")
	}
	if all := index(processes()); !all[own.leader.PID].hasTag(first - 1) {
		t.Error("the next list has not the new tag")
	}
}
