package supervisor

import (
	"os"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// watcher is an attached daemon. It receives the latest status of each changed container, not every change.
type watcher struct {
	wake    chan struct{}
	pending map[string]struct{} // IDs; guarded by supervisor.mu
	notify  map[string]struct{} // IDs whose descriptor has not been sent; guarded by supervisor.mu
}

func (w *watcher) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// attach sends a daemon the status of all containers and then the changes, until the daemon hangs up.
func (s *supervisor) attach(conn *wire.Conn, probe string) {
	w := &watcher{wake: make(chan struct{}, 1), pending: map[string]struct{}{}, notify: map[string]struct{}{}}
	s.mu.Lock()
	for id, c := range s.containers {
		if c.status.Revision == 0 {
			continue // starting: published once it runs
		}
		w.pending[id] = struct{}{}
		if c.notify != nil {
			w.notify[id] = struct{}{}
		}
	}
	s.watchers[w] = struct{}{}
	s.attached++
	s.mu.Unlock()
	s.nudge()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var never wire.Request
		_, _ = conn.Receive(&never) // an attached daemon sends nothing: this returns when it hangs up
	}()
	s.sendEvents(conn, w, gone, s.probe(probe))
	conn.Close()
	<-gone
	s.mu.Lock()
	delete(s.watchers, w)
	s.attached--
	s.mu.Unlock()
	s.nudge()
}

func (s *supervisor) sendEvents(conn *wire.Conn, w *watcher, gone <-chan struct{}, refused string) {
	if !s.flush(conn, w) || conn.Send(wire.Event{Synced: true, Refused: refused}) != nil {
		return
	}
	for {
		select {
		case <-gone:
			return
		case <-w.wake:
			if !s.flush(conn, w) {
				return
			}
		}
	}
}

// flush sends the pending statuses and descriptors, and returns whether the daemon still receives. Descriptors follow
// the statuses, because the daemon drops descriptors of unknown containers.
func (s *supervisor) flush(conn *wire.Conn, w *watcher) bool {
	s.mu.Lock()
	events := make([]wire.Event, 0, len(w.pending))
	for id := range w.pending {
		if c := s.containers[id]; c != nil && c.status.Revision > 0 {
			status := c.status
			events = append(events, wire.Event{Status: &status})
		} else {
			events = append(events, wire.Event{Removed: id})
		}
	}
	clear(w.pending)
	fds := map[string]*os.File{}
	for id := range w.notify {
		if f := s.notifyOf(id); f != nil {
			fds[id] = f
		}
	}
	clear(w.notify)
	s.mu.Unlock()
	ok := true
	for _, e := range events {
		ok = ok && conn.Send(e) == nil
	}
	for id, f := range fds {
		ok = ok && conn.Send(wire.Event{Notify: id}, f) == nil
		f.Close()
	}
	return ok
}

// notifyOf duplicates the notify descriptor of a container; nil if it has none. s.mu must be held.
func (s *supervisor) notifyOf(id string) *os.File {
	c := s.containers[id]
	if c == nil || c.notify == nil {
		return nil
	}
	dup, err := duplicate(c.notify)
	if err != nil {
		logf("%s: %v", id, err)
		return nil
	}
	return dup
}

// copyNotify returns the descriptor for the reply to a start, if there is one.
func (s *supervisor) copyNotify(id string) []*os.File {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.notifyOf(id); f != nil {
		return []*os.File{f}
	}
	return nil
}

// publish saves c's changed status and makes it pending for the watchers. s.mu must be held.
func (s *supervisor) publish(c *container) {
	s.revision = nextRevision(s.revision)
	c.status.Revision = s.revision
	if err := c.save(); err != nil {
		logf("%s: %v", c.spec.ID, err)
	}
	for w := range s.watchers {
		w.pending[c.spec.ID] = struct{}{}
		w.nudge()
	}
	s.nudge()
}
