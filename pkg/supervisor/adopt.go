package supervisor

import (
	"fmt"
	"os"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// adopt takes over the containers of an earlier supervisor. Running containers continue. A container that has ended in
// between is reported as ended, with an unknown exit code.
func (s *supervisor) adopt() error {
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
		if err := s.readopt(c); err != nil {
			return fmt.Errorf("adopt %s: %w", c.spec.ID, err)
		}
	}
	return nil
}

func (s *supervisor) readopt(c *container) error {
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
	if alive {
		if f := takeNotify(c.status.PID); f != nil {
			s.mu.Lock()
			s.setNotify(c, f)
			s.mu.Unlock()
		}
	}
	go func() {
		if !alive {
			s.lost(c)
			return
		}
		code, known := waitForeign(first)
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

// handover takes over, from the daemon, the notify descriptor of a container of an earlier supervisor. It does nothing if the
// container has kept the descriptor itself.
func (s *supervisor) handover(id string, files []*os.File) error {
	if len(files) != 1 {
		return fmt.Errorf("handover %s: %d descriptors", id, len(files))
	}
	dup, err := duplicate(files[0])
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[id]
	if c == nil || !c.status.Running || c.notify != nil {
		dup.Close()
		return nil
	}
	s.setNotify(c, dup)
	return nil
}
