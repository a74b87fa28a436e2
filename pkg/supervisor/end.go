package supervisor

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/remove"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

const (
	// drain is how long the supervisor reads the rest of an ended container's output. All processes of the container are
	// dead by then, so only a process outside the container, to which the pipe was passed, can keep it open for longer.
	drain = 2 * time.Second
	// The status of a container with an unknown exit code.
	lostExit   = 137
	lostReason = "ContainerStatusUnknown"
	lostText   = "The container could not be located when the pod was terminated"
)

// exited kills the remaining processes of a container whose first process has ended, and records the exit.
func (s *supervisor) exited(c *container, status syscall.WaitStatus) {
	code, signal := status.ExitStatus(), 0
	if status.Signaled() {
		signal = int(status.Signal())
		code = 128 + signal
	}
	s.finish(c, func(st *wire.Status) { st.ExitCode, st.Signal = code, signal })
}

func (s *supervisor) finish(c *container, result func(*wire.Status)) {
	at := time.Now()
	s.killAll(c)
	outOfMemory := c.status.MemoryEnforced && c.cgroup.outOfMemory() || cgroup(c.status.MemoryGroup).outOfMemory()
	if err := s.removeCgroups(c); err != nil {
		logf("%s: %v", c.spec.ID, err)
	}
	s.mu.Lock()
	logs := c.logs
	s.mu.Unlock()
	logs.finish(drain)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlisten(c)
	c.logs.streams.close()
	c.logs = nil
	c.status.Running = false
	c.status.Finished = at
	result(&c.status)
	if outOfMemory {
		c.reason = oomKilled
	}
	if c.reason != "" {
		c.status.Reason = c.reason
	}
	s.publish(c)
	close(c.ended)
}

// end sends SIGTERM to a container, kills it after grace, and returns when it has ended. restart is recorded before: the daemon starts the
// container again, also if it dies meanwhile.
func (s *supervisor) end(id string, grace time.Duration, restart bool) (*wire.Status, error) {
	s.mu.Lock()
	c := s.containers[id]
	if c == nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", id, wire.ErrNotFound)
	}
	running := c.status.Running
	if running && restart && !c.status.Restart {
		c.status.Restart = true
		s.publish(c)
	}
	s.mu.Unlock()
	if running {
		s.terminate(c, grace)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := c.status
	return &status, nil
}

func (s *supervisor) terminate(c *container, grace time.Duration) {
	if grace > 0 {
		s.signal(c, syscall.SIGTERM)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-c.ended:
			return
		case <-timer.C:
		}
	}
	s.signal(c, syscall.SIGKILL)
	s.killAll(c)
	<-c.ended
}

// signal sends sig to the process group of a container's first process, if it is alive.
func (s *supervisor) signal(c *container, sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := wire.Process{PID: c.status.PID, Born: c.status.Born}
	if c.status.Running && first.PID > 1 && c.status.Boot == s.boot {
		signalGroup(first, sig)
	}
}

// endAll ends every container, also those that are being started, and lets no other one start.
func (s *supervisor) endAll(grace time.Duration) error {
	s.mu.Lock()
	s.ending = true
	all := maps.Clone(s.containers)
	s.mu.Unlock()
	errs := make(chan error, len(all))
	for id, c := range all {
		go func() {
			_, err := s.end(id, grace, false)
			if c.launched != nil {
				<-c.launched // it fails, if end has found no process yet
			}
			if errors.Is(err, wire.ErrNotFound) {
				err = nil
			}
			errs <- err
		}()
	}
	var err error
	for range all {
		err = errors.Join(err, <-errs)
	}
	return err
}

// remove removes an ended container with its files.
func (s *supervisor) remove(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.containers[id]
	if c == nil {
		return nil
	}
	if c.status.Running || c.status.Revision == 0 {
		return fmt.Errorf("%s: %w", id, wire.ErrRunning)
	}
	// The state file goes first: load drops directories without one.
	if err := os.Remove(c.spec.StateDir + "/" + wire.StateFile); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := remove.All(c.spec.StateDir); err != nil {
		return err
	}
	delete(s.containers, id)
	for w := range s.watchers {
		w.pending[id] = struct{}{}
		w.notify()
	}
	return nil
}
