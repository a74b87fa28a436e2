package process_test

import (
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestExitCodesWithLateReaper kills the supervisor where the process that inherits the containers, as init does, does not
// reap them: one container ends under the next supervisor, the other while none runs.
func TestExitCodesWithLateReaper(t *testing.T) {
	m := newMachine(t)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) })
	for _, c := range []struct {
		name string
		both bool // daemon and supervisor are killed
		code int
	}{{"next", false, 0}, {"between", true, 13}} {
		t.Run(c.name, func(t *testing.T) {
			id := m.shell(m.loop(c.name, "exit "+strconv.Itoa(c.code)))
			pid := m.find(id).PID
			if c.both {
				old := m.supervisor()
				if err := m.host.Close(); err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				m.wait("the end of the supervisor", func() bool { return syscall.Kill(old, 0) != nil })
				m.killed++
				m.touch(c.name)
				awaitZombie(m, pid)
				m.open()
			} else {
				old := m.supervisor()
				m.killSupervisor()
				m.wait("a new supervisor", func() bool { return m.supervisor() != old })
				m.touch(c.name)
			}
			if got := m.ended(id); got.ExitCode != c.code || got.Reason != "" {
				t.Errorf("got %+v", got)
			}
			awaitZombie(m, pid)
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// awaitZombie waits until the child pid of this process has ended, and leaves it a zombie.
func awaitZombie(m *machine, pid int) {
	m.Helper()
	err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	if err != nil {
		m.Fatalf("wait for process %d: %v", pid, err)
	}
}
