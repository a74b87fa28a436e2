package supervisor

import "github.com/minikctl/minikctl/pkg/supervisor/wire"

// watcher is an attached daemon. It receives the latest status of each changed container, not every change.
type watcher struct {
	wake    chan struct{}
	pending map[string]struct{} // IDs; guarded by supervisor.mu
}

func (w *watcher) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// attach sends a daemon the status of all containers and then the changes, and receives its routes, until the daemon hangs up.
func (s *supervisor) attach(conn *wire.Conn, probe string) {
	w := &watcher{wake: make(chan struct{}, 1), pending: map[string]struct{}{}}
	s.mu.Lock()
	for id, c := range s.containers {
		if c.status.Revision == 0 {
			continue // starting: published once it runs
		}
		w.pending[id] = struct{}{}
	}
	s.watchers[w] = struct{}{}
	s.attached++
	s.mu.Unlock()
	s.notify()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		s.receiveRoutes(conn)
	}()
	s.sendEvents(conn, w, gone, s.probe(probe))
	conn.Close()
	<-gone
	s.mu.Lock()
	delete(s.watchers, w)
	s.attached--
	s.expireSockets()
	s.mu.Unlock()
	s.notify()
}

// receiveRoutes applies the routes that an attached daemon sends. It returns when the daemon hangs up.
func (s *supervisor) receiveRoutes(conn *wire.Conn) {
	for {
		var m wire.Routes
		files, err := conn.Receive(&m)
		switch {
		case err != nil:
			return
		case m.Sockets:
			s.holdSockets(files)
		default:
			wire.CloseFiles(files)
			s.routes.apply(&m)
			s.saveRanges(m.Ranges)
		}
	}
}

func (s *supervisor) sendEvents(conn *wire.Conn, w *watcher, gone <-chan struct{}, refused string) {
	<-s.namespacesProbed
	synced := wire.Event{
		Synced: true, Refused: refused,
		Namespaces: s.namespaces != noNamespaces, NamespacesRefused: s.namespacesRefused, MemoryEnforced: s.memoryEnforced, CPUEnforced: s.cpuEnforced,
		PIDsEnforced: s.pidsEnforced, Routes: routesServed,
	}
	if !s.flush(conn, w) || conn.Send(synced) != nil {
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

// flush sends the pending statuses, and returns whether the daemon still receives.
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
	s.mu.Unlock()
	ok := true
	for _, e := range events {
		ok = ok && conn.Send(e) == nil
	}
	return ok
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
		w.notify()
	}
	s.notify()
}
