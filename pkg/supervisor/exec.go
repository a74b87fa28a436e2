package supervisor

import (
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// exec runs a command as a process of the container until the command ends or the daemon hangs up. files are its standard
// streams. It returns the exit code.
func (s *supervisor) exec(conn *wire.Conn, req *wire.Request, files []*os.File) (int, error) {
	if req.Exec == nil || len(req.Exec.Argv) == 0 || len(files) != 3 {
		return 0, errors.New("exec: no command")
	}
	c, _, err := s.running(req.ID)
	if err != nil {
		return 0, err
	}
	spec := *c.spec
	if req.Exec.TTY && !slices.ContainsFunc(spec.Env, func(e string) bool { return strings.HasPrefix(e, "TERM=") }) {
		spec.Env = append(slices.Clone(spec.Env), "TERM=xterm")
	}
	child, err := s.forkInto(c, &spec, req.Exec.Argv, files, req.Exec.TTY)
	wire.CloseFiles(files)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	groups := oldGroups(c, &c.status)
	s.mu.Unlock()
	for _, g := range groups {
		if g == noCgroup {
			continue
		}
		if err := g.add(child.PID); err != nil {
			logf("%s: limit a command: %v", c.spec.ID, err)
		}
	}
	s.joinExec(c, child)
	defer s.leaveExec(c, child)
	child.filtered = func(notify *os.File) error { return s.listenExec(c, child, notify) }
	if err := child.release(); err != nil {
		<-child.exited
		return 0, err
	}
	return s.waitExec(conn, c, child), nil
}

// waitExec waits for the end of a command, and kills it when the daemon hangs up or the container ends.
func (s *supervisor) waitExec(conn *wire.Conn, c *container, child *child) int {
	var status syscall.WaitStatus
	select {
	case status = <-child.exited:
	case <-hungUp(conn):
		signalGroup(child.Process, syscall.SIGKILL)
		status = <-child.exited
	case <-c.ended:
		signalGroup(child.Process, syscall.SIGKILL)
		status = <-child.exited
	}
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// joinExec records the session of a command that the container's cgroup does not hold, and gives it the container's tag.
func (s *supervisor) joinExec(c *container, child *child) {
	if child.cgroup != noCgroup {
		return
	}
	s.joinSession(c, child.Process)
	s.mu.Lock()
	defer s.mu.Unlock()
	child.tagged = c.status.Tag != 0 && setTag(child.PID, c.status.Tag)
	if c.execs == nil {
		c.execs = map[wire.Process]struct{}{}
	}
	c.execs[child.Process] = struct{}{}
}

// leaveExec drops an ended command and its session, unless the command has left processes. They need not be in its session; as long
// as one is under the command's filter, the container counts as not empty (empty).
func (s *supervisor) leaveExec(c *container, child *child) {
	if child.cgroup != noCgroup {
		return
	}
	switch {
	case child.leftNothing():
		s.dropExec(c, child)
	case child.filterUnused != nil:
		go func() {
			select {
			case <-child.filterUnused:
				s.dropExec(c, child)
			case <-c.ended:
			}
		}()
	case !slices.ContainsFunc(s.sessionMembers(c, index(processes())), func(p *process) bool { return p.session == child.PID }):
		s.dropExec(c, child)
	}
}

func (s *supervisor) dropExec(c *container, child *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(c.execs, child.Process)
	c.status.Leaders = slices.DeleteFunc(slices.Clone(c.status.Leaders), func(l wire.Process) bool { return l == child.Process })
}

// leftNothing reports whether an ended command has certainly left no processes behind.
func (c *child) leftNothing() bool {
	if c.filterUnused == nil {
		return false
	}
	select {
	case <-c.filterUnused:
		return true
	case <-time.After(5 * time.Millisecond):
		return false
	}
}
