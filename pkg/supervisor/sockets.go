package supervisor

import (
	"os"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// socketsTime is how long the supervisor keeps the sockets of a daemon that has ended. Later, clients are refused at once, and don't wait for a
// daemon that does not come.
const socketsTime = 15 * time.Second

// holdSockets keeps copies of listening sockets of the attached daemon in place of those before, and closes the files. While no daemon runs, what
// clients send waits in them for the next one. The copies are in no poller: they would wake the supervisor with each packet.
func (s *supervisor) holdSockets(files []*os.File) {
	held, err := wire.Copies(files)
	wire.CloseFiles(files)
	if err != nil {
		logf("sockets of the daemon: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeSockets()
	s.sockets = held
}

// heldSockets returns files of the sockets, which the caller closes.
func (s *supervisor) heldSockets() ([]*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return wire.FilesOf(s.sockets)
}

// expireSockets closes the sockets in socketsTime, counted from the end of the last daemon. s.mu must be held.
func (s *supervisor) expireSockets() {
	if s.socketsEnd != nil {
		s.socketsEnd.Stop()
	}
	s.socketsEnd = time.AfterFunc(socketsTime, s.dropSockets)
}

// dropSockets closes the sockets unless a daemon is attached.
func (s *supervisor) dropSockets() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached == 0 {
		s.closeSockets()
	}
}

// closeSockets closes the sockets. s.mu must be held.
func (s *supervisor) closeSockets() {
	for _, fd := range s.sockets {
		_ = syscall.Close(fd) // it is only a copy
	}
	s.sockets = nil
}
