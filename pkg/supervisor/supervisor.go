// Package supervisor owns the process that runs a daemon's containers and outlives the daemon. The supervisor forks the
// containers (package launch), reads their output and writes their logs, handles their bind and connect calls over seccomp
// descriptors, limits their memory, reaps them and all their descendants, and records their status on disk. The daemon
// connects to it over a unix socket (package wire). The containers run on when the daemon dies, and the next daemon attaches.
//
// The containers also run on when the supervisor dies. The next supervisor finds them by PID and start time. It reads from
// the same named pipes, which the daemon has kept open. A keeper (keeper_linux.go), a process that only holds descriptors,
// has their seccomp descriptors, the call that was being answered, and their pidfds, which have the exit codes. It starts the
// next supervisor if no daemon does. Two things are lost: output that the old supervisor had read and not yet written, and the
// exit code of a container that was reaped between the two supervisors (on kernels that report exit codes to parents only).
//
// If the keeper dies as well, before the supervisor can start another one, the kernel closes the seccomp notify descriptors,
// since no process holds them any more: the containers can make no new listening sockets, connections and sessions (ENOSYS).
// No container holds its own descriptor, because it could answer its own calls.
//
// The supervisor ends by itself when nothing runs and no daemon is attached.
package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/filelock"
	"github.com/minikctl/minikctl/pkg/supervisor/role"
	"github.com/minikctl/minikctl/pkg/supervisor/trim"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

const (
	// idle is how long a supervisor with nothing to do waits for a daemon.
	idle = 10 * time.Second
	// dirInterval is how often a supervisor checks that its directory still exists.
	dirInterval = 5 * time.Second
)

type supervisor struct {
	root   string
	boot   string
	reaper *reaper
	keeper *keeper
	routes routes // to the endpoints of Services

	limits  sync.Once // starts the watcher of memory, when there is a limit
	probed  sync.Once
	refused string // why containers can't have their own addresses; set by probed

	namespaces        namespaces // that containers with mounts get; set once namespacesProbed is closed
	namespacesRefused string     // why none; set as namespaces
	memoryEnforced    bool       // the kernel enforces memory limits; set as namespaces
	cpuEnforced       bool       // the kernel enforces CPU limits; set as namespaces
	pidsEnforced      bool       // the kernel enforces limits of processes; set as namespaces
	namespacesProbed  chan struct{}

	podGroups sync.Mutex // held while a container joins the cgroup of its pod, and while that is removed

	mu         sync.Mutex
	containers map[string]*container
	watchers   map[*watcher]struct{}
	revision   uint64
	attached   int
	ending     bool          // no container starts any more
	sockets    []int         // of the daemon, see holdSockets
	socketsEnd *time.Timer   // closes the sockets; nil before a daemon has detached
	activity   chan struct{} // receives when the supervisor may have become idle or busy
	stop       chan struct{} // closed by Shutdown
	stopOnce   sync.Once
}

// Command returns the command that runs a supervisor over the directory root. The process must lead a new session to outlive
// its parent. If its start fails, it writes the reason to its standard error. It closes its descriptor 3 as soon as it
// accepts connections.
func Command(root string) role.Command {
	// The supervisor allocates little, and its memory counts on every machine.
	return role.Start(role.Supervisor, []string{root}, "GOGC=50")
}

// Main runs the supervisor over the directory that is args[0] until it has nothing to do.
func Main(args []string) error {
	if len(args) != 1 {
		return errors.New("supervisor: want one directory")
	}
	// A terminal that closes or a Ctrl-C ends the daemon, not its pods.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT)
	s := &supervisor{
		root:       args[0],
		boot:       bootID(),
		reaper:     newReaper(),
		containers: map[string]*container{},
		watchers:   map[*watcher]struct{}{},
		activity:   make(chan struct{}, 1),
		stop:       make(chan struct{}),

		namespacesProbed: make(chan struct{}),
	}
	s.keeper = newKeeper(s)
	return s.run()
}

func (s *supervisor) run() error {
	lock, err := lockFile(s.root + "/" + wire.LockFile)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := becomeSubreaper(); err != nil {
		return err
	}
	go s.reaper.run()
	go s.probeNamespaces()
	defer func() { <-s.namespacesProbed }() // it uses the directory, which may be removed once the lock is free
	s.loadRanges()
	if err := s.adopt(s.keeper.connect()); err != nil {
		return err
	}
	defer s.keeper.end()
	socket := s.root + "/" + wire.SocketFile
	l, err := wire.Listen(socket)
	if err != nil {
		return err
	}
	defer func() {
		if filelock.InPlace(lock) { // and not another supervisor's in a new directory
			os.Remove(socket) // while the lock is still held
		}
	}()
	defer l.Close()
	os.NewFile(3, "ready").Close()
	go s.serve(l)
	trim.Later()
	return s.waitIdle(lock)
}

func lockFile(path string) (*os.File, error) {
	f, err := filelock.Try(path, os.O_CREATE|os.O_RDWR)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, fmt.Errorf("%s: another supervisor serves this directory", path)
	}
	if err != nil {
		return nil, err
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(os.Getpid()) + "\n") // for debugging and for tests
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// waitIdle returns when there has been nothing to do for a while, and after Shutdown. It also returns when the directory was
// removed, after it has ended the containers: no daemon could find them any more.
func (s *supervisor) waitIdle(lock *os.File) error {
	home := time.NewTicker(dirInterval)
	defer home.Stop()
	over := time.NewTimer(idle)
	defer over.Stop()
	for {
		select {
		case <-s.stop:
			return nil
		case <-s.activity:
			over.Reset(idle)
			if !filelock.InPlace(lock) { // a daemon that notices it before the next tick ends
				return s.endAll(0)
			}
		case <-over.C:
			if s.isIdle() {
				return nil
			}
		case <-home.C:
			if !filelock.InPlace(lock) {
				return s.endAll(0)
			}
		}
	}
}

func (s *supervisor) isIdle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached > 0 {
		return false
	}
	for _, c := range s.containers {
		if c.status.Running {
			return false
		}
	}
	return true
}

func (s *supervisor) notify() {
	select {
	case s.activity <- struct{}{}:
	default:
	}
}

func (s *supervisor) serve(l *wire.Listener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, os.ErrClosed) {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "accept:", err)
			time.Sleep(10 * time.Millisecond) // out of descriptors: some may be closed soon
			continue
		}
		go s.handleConn(conn)
	}
}

// handleConn handles the one request of a connection.
func (s *supervisor) handleConn(conn *wire.Conn) {
	defer conn.Close()
	var req wire.Request
	files, err := conn.Receive(&req)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stderr, "request:", err)
		}
		return
	}
	defer wire.CloseFiles(files)
	if req.Op == wire.Attach {
		s.attach(conn, req.Probe)
		return
	}
	if req.Op == wire.Sockets {
		sockets, err := s.heldSockets()
		if err == nil {
			_ = conn.Send(wire.Reply{}, sockets...) // a daemon that has ended needs none
		}
		wire.CloseFiles(sockets)
		return
	}
	reply, err := s.do(conn, &req, files)
	if err != nil {
		reply = wire.Failed(err)
	}
	_ = conn.Send(reply) // if the daemon has ended, the next one receives the status when it attaches
	if req.Op == wire.Shutdown && err == nil {
		s.stopOnce.Do(func() { close(s.stop) })
	}
}

func (s *supervisor) do(conn *wire.Conn, req *wire.Request, files []*os.File) (wire.Reply, error) {
	switch req.Op {
	case wire.Start:
		status, err := s.start(req.Spec)
		return wire.Reply{Status: status}, err
	case wire.Stop:
		status, err := s.end(req.ID, req.Grace, req.Restart)
		return wire.Reply{Status: status}, err
	case wire.Remove:
		return wire.Reply{}, s.remove(req.ID)
	case wire.Exec:
		code, err := s.exec(conn, req, files)
		return wire.Reply{Exit: code}, err
	case wire.Join:
		return wire.Reply{}, s.join(conn, req, files)
	case wire.Resize:
		return wire.Reply{}, s.resize(req.ID, req.Size)
	case wire.Relimit:
		status, err := s.relimit(req.ID, req.Limits)
		return wire.Reply{Status: status}, err
	case wire.Measure:
		return wire.Reply{Usage: s.measure(req.IDs)}, nil
	case wire.Shutdown:
		return wire.Reply{}, s.endAll(req.Grace)
	}
	return wire.Reply{}, fmt.Errorf("unknown request %q", req.Op)
}
