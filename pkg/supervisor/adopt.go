package supervisor

import (
	"fmt"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// adopt takes over the containers of an earlier supervisor. Running containers continue. A container that has ended in
// between is reported as ended, with an unknown exit code unless its pidfd has it. held are the descriptors of a keeper.
func (s *supervisor) adopt(held map[string]keeping) error {
	all, err := load(s.root)
	if err != nil {
		return err
	}
	for _, c := range all {
		s.containers[c.spec.ID] = c
		s.revision = nextRevision(max(s.revision, c.status.Revision))
		c.status.Revision = s.revision
		if !c.status.Running {
			close(c.ended)
			continue
		}
		k := held[c.spec.ID]
		delete(held, c.spec.ID)
		if err := s.readopt(c, k); err != nil {
			return fmt.Errorf("adopt %s: %w", c.spec.ID, err)
		}
	}
	for id, k := range held { // removed containers
		s.keeper.drop(id)
		k.close()
	}
	return nil
}

func (s *supervisor) readopt(c *container, k keeping) error {
	if c.status.Started.IsZero() {
		c.status.Started = time.Now() // the supervisor died between the fork and the start
	}
	first := wire.Process{PID: c.status.PID, Born: c.status.Born}
	alive := c.status.Boot == s.boot && exists(first)
	p, err := c.reopen(alive)
	if err != nil {
		return err
	}
	c.logs = newLogs(c.spec.LogPath, p)
	s.limit(c)
	c.keeping = k
	if k.process == nil && alive {
		c.keeping.process = openProcess(first)
	}
	if k.notify != nil {
		if l, err := s.newListener(c, c.cgroup, k.notify, k.call); err != nil {
			logf("%s: %v", c.spec.ID, err)
		} else {
			c.listener = l
			go l.listen()
		}
	}
	s.keeper.hold(c)
	go func() {
		code, known := waitNonChild(first, c.keeping.process)
		if !known {
			s.lost(c)
			return
		}
		s.exited(c, code)
	}()
	return nil
}

// reopen opens the streams of a container that an earlier supervisor has started.
func (c *container) reopen(alive bool) (*pipes, error) {
	switch {
	case !c.spec.TTY:
		return c.openOurs()
	case alive:
		return &pipes{out: takeTerminal(c.status.PID)}, nil
	}
	return &pipes{}, nil // the terminal ended with its last holder
}

// lost records an exit with an unknown code, with Kubernetes' reason for it.
func (s *supervisor) lost(c *container) {
	s.finish(c, func(st *wire.Status) {
		st.ExitCode, st.Reason, st.Message = lostExit, lostReason, lostText
	})
}
