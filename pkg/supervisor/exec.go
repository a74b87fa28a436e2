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

// exec runs a command as a process of the container until it ends, or until the daemon hangs up. files are its standard
// streams.
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
	child, err := s.fork(&spec, req.Exec.Argv, files, req.Exec.TTY)
	wire.CloseFiles(files)
	if err != nil {
		return 0, err
	}
	s.joinExec(c, child.pid)
	defer s.leaveExec(c, child)
	if err := child.release(); err != nil {
		<-child.exited
		return 0, err
	}
	s.listenExec(c, child)
	return s.waitExec(conn, c, child), nil
}

// waitExec kills the command when the daemon hangs up or the container ends.
func (s *supervisor) waitExec(conn *wire.Conn, c *container, child *child) int {
	var status syscall.WaitStatus
	select {
	case status = <-child.exited:
	case <-hungUp(conn):
		_ = syscall.Kill(-child.pid, syscall.SIGKILL)
		status = <-child.exited
	case <-c.ended:
		_ = syscall.Kill(-child.pid, syscall.SIGKILL)
		status = <-child.exited
	}
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

func (s *supervisor) joinExec(c *container, session int) {
	s.joinSession(c, session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.execs == nil {
		c.execs = map[int]struct{}{}
	}
	c.execs[session] = struct{}{}
}

// leaveExec forgets an ended command's session, unless the command has left processes in it.
func (s *supervisor) leaveExec(c *container, child *child) {
	if !child.deserted() && slices.ContainsFunc(processes(), func(p process) bool {
		return p.session == child.pid && !p.zombie
	}) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(c.execs, child.pid)
	c.status.Sessions = slices.DeleteFunc(slices.Clone(c.status.Sessions), func(n int) bool { return n == child.pid })
}

// deserted tells whether an ended command has surely left nothing behind.
func (c *child) deserted() bool {
	if c.left == nil {
		return false
	}
	select {
	case <-c.left:
		return true
	case <-time.After(5 * time.Millisecond):
		return false
	}
}
