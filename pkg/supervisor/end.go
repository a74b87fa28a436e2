package supervisor

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

const (
	// drain is how long an ended container's output may take to be read to its end. All its processes are dead by
	// then, so that only a pipe that was passed to somebody else is cut.
	drain = 2 * time.Second
	// lost is the code and reason of a container whose exit nobody saw.
	lostExit   = 137
	lostReason = "ContainerStatusUnknown"
	lostText   = "The container could not be located when the pod was terminated"
)

// exited notes the end of a container's first process, after ending what it left behind.
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
	s.mu.Lock()
	logs := c.logs
	s.mu.Unlock()
	logs.finish(drain)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setNotify(c, nil)
	c.logs.streams.close()
	c.logs = nil
	c.status.Running = false
	c.status.Finished = at
	result(&c.status)
	if c.reason != "" {
		c.status.Reason = c.reason
	}
	s.publish(c)
	close(c.ended)
}

// end asks a container to end, kills it when grace is over, and returns when it has ended.
func (s *supervisor) end(id string, grace time.Duration) (*wire.Status, error) {
	s.mu.Lock()
	c := s.containers[id]
	if c == nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", id, wire.ErrNotFound)
	}
	running, pid := c.status.Running, c.status.PID
	s.mu.Unlock()
	if running {
		s.terminate(c, pid, grace)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := c.status
	return &status, nil
}

func (s *supervisor) terminate(c *container, pid int, grace time.Duration) {
	if grace > 0 {
		s.signal(c, pid, syscall.SIGTERM)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-c.ended:
			return
		case <-timer.C:
		}
	}
	s.signal(c, pid, syscall.SIGKILL)
	s.killAll(c)
	<-c.ended
}

// signal sends sig to the container's process group, if it is still the container's.
func (s *supervisor) signal(c *container, pid int, sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.status.Running && pid > 1 && born(pid) == c.status.Born {
		_ = syscall.Kill(-pid, sig) // it may have ended just now
	}
}

// endAll ends every container.
func (s *supervisor) endAll(grace time.Duration) error {
	s.mu.Lock()
	var ids []string
	for id := range s.containers {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	errs := make([]error, len(ids))
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			if _, err := s.end(id, grace); err != nil && !errors.Is(err, wire.ErrNotFound) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// remove forgets a container that has ended.
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
	// The state goes first: without it a half-removed folder is nobody's.
	if err := os.Remove(c.spec.Folder + "/" + wire.StateFile); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.RemoveAll(c.spec.Folder); err != nil {
		return err
	}
	delete(s.containers, id)
	for w := range s.watchers {
		w.pending[id] = struct{}{}
		w.nudge()
	}
	return nil
}
