package supervisor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/role"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// container is one that runs or has ended. Its fields are guarded by supervisor.mu, but for those that never change.
type container struct {
	spec   *wire.Spec
	status wire.Status
	reason string           // why the supervisor killed it, if it did
	notify *os.File         // its filter's other end; nil without filter
	execs  map[int]struct{} // the sessions of commands that were run in it
	logs   *logs            // nil once it has ended
	ended  chan struct{}    // closed when status says so
}

// start runs a container and returns once its program runs.
func (s *supervisor) start(spec *wire.Spec) (*wire.Status, error) {
	if spec == nil || spec.ID == "" || len(spec.Argv) == 0 {
		return nil, errors.New("start: no command")
	}
	c := &container{spec: spec, status: wire.Status{Spec: spec, Boot: s.boot}, ended: make(chan struct{})}
	s.mu.Lock()
	if s.containers[spec.ID] != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", spec.ID, wire.ErrExists)
	}
	s.containers[spec.ID] = c // reserves the name; nobody is told yet
	s.mu.Unlock()
	if err := s.launch(c); err != nil {
		s.mu.Lock()
		delete(s.containers, spec.ID)
		s.mu.Unlock()
		return nil, errors.Join(err, os.RemoveAll(spec.Folder))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := c.status
	return &status, nil
}

func (s *supervisor) launch(c *container) error {
	if err := c.prepare(); err != nil {
		return err
	}
	out, err := c.openPipes()
	if err != nil {
		return err
	}
	child, err := s.fork(c.spec, c.spec.Argv, out.theirs, c.spec.TTY)
	out.closeTheirs()
	if err != nil {
		out.close()
		return err
	}
	child.launch.Keep, child.kept = true, out.kept
	s.mu.Lock()
	c.status.PID, c.status.Born = child.pid, born(child.pid)
	c.status.Running = true
	// On disk before the program may run: a supervisor that dies now is followed by one that knows of it.
	err = c.save()
	s.mu.Unlock()
	if err == nil {
		err = child.release()
	}
	if err != nil {
		syscall.Kill(child.pid, syscall.SIGKILL)
		<-child.exited
		out.close()
		return err
	}
	s.follow(c, child, out)
	return nil
}

// follow takes over a container whose program runs.
func (s *supervisor) follow(c *container, child *child, out *pipes) {
	logs := newLogs(c.spec.LogPath, out)
	s.mu.Lock()
	c.logs = logs
	c.status.Started = time.Now()
	if child.refused != "" {
		c.status.Message = "own address refused: " + child.refused
	}
	s.setNotify(c, child.notify)
	s.publish(c)
	s.mu.Unlock()
	s.limit(c)
	go func() {
		status := <-child.exited
		s.exited(c, status)
	}()
}

// prepare makes the container's folder: its pipes, and links to what it mounts.
func (c *container) prepare() error {
	if err := os.Mkdir(c.spec.Folder, 0o711); err != nil {
		return err
	}
	if err := os.Mkdir(c.spec.Root(), 0o755); err != nil {
		return err
	}
	if c.spec.LogPath != "" {
		if err := os.MkdirAll(parent(c.spec.LogPath), 0o755); err != nil {
			return err
		}
	}
	for _, l := range c.spec.Links {
		path := c.spec.Root() + l.Path
		if err := os.MkdirAll(parent(path), 0o755); err != nil {
			return fmt.Errorf("mount %s: %w", l.Path, err)
		}
		if err := os.Symlink(l.Host, path); err != nil {
			return fmt.Errorf("mount %s: %w", l.Path, err)
		}
	}
	return c.chown(c.spec.Root())
}

func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// chown gives path to the container's user, where the supervisor may.
func (c *container) chown(path string) error {
	if os.Getuid() != 0 || (c.spec.UID == nil && c.spec.GID == nil) {
		return nil
	}
	uid, gid := -1, -1
	if c.spec.UID != nil {
		uid = int(*c.spec.UID)
	}
	if c.spec.GID != nil {
		gid = int(*c.spec.GID)
	}
	return os.Lchown(path, uid, gid)
}

// child is a forked process that waits for release, and then is the container's program.
type child struct {
	pid     int
	exited  <-chan syscall.WaitStatus
	conn    *wire.Conn
	launch  wire.Launch
	kept    []*os.File // what goes with it
	notify  *os.File
	refused string
	left    chan struct{} // closed when no process has its filter any more; for commands only
}

// fork makes a child with the user, folder, environment and filter of spec.
func (s *supervisor) fork(spec *wire.Spec, argv []string, std []*os.File, tty bool) (*child, error) {
	conn, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	cmd := role.Start(role.Launch, argv) // the arguments are for those who look at it meanwhile
	attr := &syscall.ProcAttr{Env: cmd.Env, Sys: role.OwnSession()}
	for _, f := range append(std[:3:3], theirs) {
		attr.Files = append(attr.Files, descriptor(f))
	}
	pid, exited, err := s.reaper.fork(cmd.Path, cmd.Args, attr)
	theirs.Close()
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("start container process: %w", err)
	}
	filter := wire.SessionFilter
	if spec.Address != "" {
		filter = wire.AddressFilter
	}
	return &child{pid: pid, exited: exited, conn: conn, launch: wire.Launch{
		Argv: argv, Dir: spec.Dir, Env: spec.Env, UID: spec.UID, GID: spec.GID, Filter: filter, TTY: tty,
	}}, nil
}

// release lets the child become the program, and returns why it could not.
func (c *child) release() error {
	defer c.conn.Close()
	if err := c.conn.Send(c.launch, c.kept...); err != nil {
		return fmt.Errorf("start container process: %w", err)
	}
	for {
		var m wire.Launched
		files, err := c.conn.Receive(&m)
		if err != nil {
			return nil // closed by exec; or the process died, which its exit code tells
		}
		if m.Error != "" {
			wire.CloseFiles(files)
			c.close()
			return errors.New(m.Error)
		}
		c.refused = m.Refused
		if m.Filtered && len(files) == 1 {
			c.notify = files[0]
			files = nil
		}
		wire.CloseFiles(files)
	}
}

func (c *child) close() {
	if c.notify != nil {
		c.notify.Close()
		c.notify = nil
	}
}
