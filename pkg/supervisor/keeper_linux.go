//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/role"
	"github.com/minikctl/minikctl/pkg/supervisor/trim"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// keepMessage is a message between a supervisor and its keeper. If the keeper is that of an earlier supervisor, it starts with
// a message for each container that it holds and one with End. From then on only the supervisor sends.
type keepMessage struct {
	ID    string   `json:",omitempty"` // a container
	Files []string `json:",omitempty"` // which files come with the message; none: the keeper closes those that it holds
	End   bool     `json:",omitempty"` // from the keeper: it holds nothing else; from the supervisor: the keeper ends
}

// The names in keepMessage.Files.
const (
	keepProcess = "process"
	keepNotify  = "notify"
	keepCall    = "call"
)

func sendKeeping(conn *wire.Conn, id string, k keeping) error {
	m := keepMessage{ID: id}
	var files []*os.File
	for _, f := range []struct {
		name string
		file *os.File
	}{{keepProcess, k.process}, {keepNotify, k.notify}, {keepCall, k.call}} {
		if f.file != nil {
			m.Files, files = append(m.Files, f.name), append(files, f.file)
		}
	}
	if len(files) == 0 {
		return nil
	}
	return conn.Send(m, files...)
}

func receiveKeeping(conn *wire.Conn) (keepMessage, keeping, error) {
	var m keepMessage
	var k keeping
	files, err := conn.Receive(&m)
	if err == nil && len(files) != len(m.Files) {
		wire.CloseFiles(files)
		err = errors.New("descriptors are missing")
	}
	if err != nil {
		return m, k, err
	}
	for i, f := range files {
		switch m.Files[i] {
		case keepProcess:
			k.process = f
		case keepNotify:
			k.notify = f
		case keepCall:
			k.call = f
		default:
			f.Close()
		}
	}
	return m, k, nil
}

// keeper is the supervisor's side: it starts a keeper for the first container and whenever the keeper has died.
type keeper struct {
	s *supervisor

	mu      sync.Mutex // taken after s.mu
	conn    *wire.Conn // nil: none runs
	stopped bool       // none is started any more
}

func newKeeper(s *supervisor) *keeper { return &keeper{s: s} }

func (k *keeper) socket() string { return k.s.root + "/" + wire.KeeperFile }

// connect returns what the keeper of an earlier supervisor holds, by container.
func (k *keeper) connect() map[string]keeping {
	conn, err := wire.Dial(k.socket())
	if err != nil {
		return nil // none runs
	}
	held := map[string]keeping{}
	for {
		m, files, err := receiveKeeping(conn)
		if err != nil {
			conn.Close()
			return held // it has ended; what it had sent is valid
		}
		if m.End {
			break
		}
		held[m.ID] = files
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.use(conn)
	return held
}

// use makes conn the connection to the keeper. k.mu must be held.
func (k *keeper) use(conn *wire.Conn) {
	k.conn = conn
	go func() {
		for {
			_, files, err := receiveKeeping(conn)
			files.close()
			if err != nil {
				break
			}
		}
		k.mu.Lock()
		if k.conn == conn {
			k.conn = nil
		}
		over := k.stopped
		k.mu.Unlock()
		conn.Close()
		if !over {
			k.s.holdAll()
		}
	}()
}

// holdAll passes the descriptors of all running containers to a new keeper.
func (s *supervisor) holdAll() {
	s.mu.Lock()
	var running []*container
	for _, c := range s.containers {
		if c.status.Running {
			running = append(running, c)
		}
	}
	s.mu.Unlock()
	for _, c := range running {
		s.keeper.hold(c)
	}
}

// hold passes the descriptors of c to the keeper. The keeper has them when hold returns, even if the supervisor dies then.
func (k *keeper) hold(c *container) {
	k.s.mu.Lock() // so that c's files stay open
	defer k.s.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopped {
		return
	}
	if k.conn == nil {
		conn, err := k.start()
		if err != nil {
			logf("start the keeper: %v", err)
			return
		}
		k.use(conn)
	}
	_ = sendKeeping(k.conn, c.spec.ID, c.keeping) // fails if the keeper has died: the next one receives everything
}

// drop makes the keeper close the descriptors of a container.
func (k *keeper) drop(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.conn != nil {
		_ = k.conn.Send(keepMessage{ID: id}) // fails if the keeper has died
	}
}

// end ends the keeper, and returns when it has ended.
func (k *keeper) end() {
	k.mu.Lock()
	conn := k.conn
	k.conn, k.stopped = nil, true
	k.mu.Unlock()
	if conn == nil || conn.Send(keepMessage{End: true}) != nil {
		return
	}
	k.awaitEnd()
}

// keeperEnd bounds how long the supervisor waits for the end of its keeper.
const keeperEnd = 5 * time.Second

// awaitEnd waits until the keeper has closed its listening socket, which it does last.
func (k *keeper) awaitEnd() {
	for end := time.Now().Add(keeperEnd); time.Now().Before(end); pause() {
		conn, err := wire.Dial(k.socket())
		if err != nil {
			_ = os.Remove(k.socket())
			return
		}
		conn.Close()
	}
}

// start starts a keeper.
func (k *keeper) start() (*wire.Conn, error) {
	l, err := wire.Listen(k.socket())
	if err != nil {
		return nil, err
	}
	defer l.Close()
	socket, err := l.File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	conn, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	attr := &syscall.ProcAttr{Dir: "/", Sys: role.OwnSession()}
	for _, f := range []*os.File{null, null, os.Stderr, theirs, socket} {
		attr.Files = append(attr.Files, descriptor(f))
	}
	cmd := role.Start(role.Keeper, []string{k.s.root}, "GOGC=50")
	attr.Env = cmd.Env
	if _, _, err := k.s.reaper.fork(cmd.Path, cmd.Args, attr); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

const (
	// restartFirst is how long a keeper waits for a supervisor that the daemon starts, and restartNext between its own attempts.
	restartFirst = 2 * time.Second
	restartNext  = 10 * time.Second
)

// Keep runs the keeper of the directory that is args[0]. Descriptor 3 is the connection to the supervisor that has started it,
// and descriptor 4 the socket on which it accepts the next one.
func Keep(args []string) error {
	if len(args) != 1 {
		return errors.New("keeper: want one directory")
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT)
	conn, err := wire.FileConn(os.NewFile(3, "supervisor"))
	if err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	l, err := wire.FileListener(os.NewFile(4, "listener"))
	if err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	trim.Later()
	next := make(chan *wire.Conn)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			next <- conn
		}
	}()
	directory, err := os.Stat(args[0])
	if err != nil {
		return fmt.Errorf("keeper: %w", err)
	}
	held := holdings{}
	for conn != nil && !held.serve(conn) {
		conn = held.await(args[0], directory, next)
	}
	return nil
}

// holdings are the descriptors that a keeper holds, by container.
type holdings map[string]keeping

// pass sends a supervisor what the keeper holds.
func (h holdings) pass(conn *wire.Conn) error {
	for id, k := range h {
		if err := sendKeeping(conn, id, k); err != nil {
			return err
		}
	}
	return conn.Send(keepMessage{End: true})
}

// serve holds what a supervisor sends until the supervisor dies. It returns whether the keeper ends. It sends nothing: what
// a supervisor that has died already had sent would be lost with the error.
func (h holdings) serve(conn *wire.Conn) (end bool) {
	defer conn.Close()
	for {
		m, k, err := receiveKeeping(conn)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				logf("keeper: %v", err)
			}
			return false
		}
		if m.End {
			return true
		}
		h[m.ID].close()
		if len(m.Files) == 0 {
			delete(h, m.ID)
		} else {
			h[m.ID] = k
		}
	}
}

// await returns the connection of the next supervisor. It starts one if no daemon does. It returns nil if the keeper holds
// nothing, and if no supervisor can run because the directory was removed, or is another one.
func (h holdings) await(root string, directory os.FileInfo, next <-chan *wire.Conn) *wire.Conn {
	wait := restartFirst
	for len(h) > 0 {
		select {
		case conn := <-next:
			if h.pass(conn) == nil {
				return conn
			}
			conn.Close() // it has ended
			continue
		case <-time.After(wait):
		}
		wait = restartNext
		now, err := os.Stat(root)
		if _, lockErr := os.Stat(root + "/" + wire.LockFile); err != nil || lockErr != nil || !os.SameFile(directory, now) {
			return nil // the calls of the containers fail from now on, instead of waiting
		}
		if err := startSupervisor(root); err != nil {
			logf("keeper: start the supervisor: %v", err)
		}
	}
	return nil
}

// startSupervisor starts a supervisor over the directory root. The supervisor ends at once if another one serves the directory.
func startSupervisor(root string) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	cmd := Command(root)
	p, err := os.StartProcess(cmd.Path, cmd.Args, &os.ProcAttr{
		Dir: "/", Env: cmd.Env, Files: []*os.File{null, null, os.Stderr, null}, Sys: role.OwnSession(),
	})
	if err != nil {
		return err
	}
	go func() { _, _ = p.Wait() }() // the reason is in its log
	return nil
}
