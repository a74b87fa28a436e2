package supervisor

import (
	"fmt"
	"os"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// adopt takes over what an earlier supervisor has left: running containers run on, and an exit that was missed is told
// as one.
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
	alive := c.status.Boot == s.boot && born(c.status.PID) == c.status.Born
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
		code, known := waitForeign(c.status.PID, c.status.Born)
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
	return &pipes{}, nil // a terminal ends with those who have it
}

// lost notes an exit whose code nobody saw, as Kubernetes words it.
func (s *supervisor) lost(c *container) {
	s.finish(c, func(st *wire.Status) {
		st.ExitCode, st.Reason, st.Message = lostExit, lostReason, lostText
	})
}

// handover takes the notify descriptor of a container that an earlier supervisor has started, and that the container has
// not kept itself.
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
