package supervisor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/supervisor/remove"
	"github.com/minikctl/minikctl/pkg/supervisor/role"
	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// container is a container that runs or has ended. supervisor.mu guards the fields that change.
type container struct {
	spec    *wire.Spec
	status  wire.Status
	reason  string // why the supervisor has killed it; "" if it has not
	killing bool   // its processes are being killed, and can't create sessions

	listener *listener                 // answers its system calls; nil without a filter
	keeping  keeping                   // what the keeper holds of it
	cgroup   cgroup                    // set before the container is published
	execs    map[wire.Process]struct{} // the leaders of commands that run in it and outside its cgroup
	logs     *logs                     // nil once it has ended
	launched chan struct{}             // closed when start is over; nil: an earlier supervisor has started it
	ended    chan struct{}             // closed when status records the end, or when its launch has failed
}

var errEnding = errors.New("the supervisor ends")

// start runs a container and returns once its program runs.
func (s *supervisor) start(spec *wire.Spec) (*wire.Status, error) {
	if spec == nil || spec.ID == "" || len(spec.Argv) == 0 {
		return nil, errors.New("start: no command")
	}
	c := &container{spec: spec, status: wire.Status{Spec: spec, Boot: s.boot}, launched: make(chan struct{}), ended: make(chan struct{})}
	defer close(c.launched)
	s.mu.Lock()
	if s.ending {
		s.mu.Unlock()
		return nil, errEnding
	}
	if s.containers[spec.ID] != nil {
		s.mu.Unlock()
		return nil, fmt.Errorf("%s: %w", spec.ID, wire.ErrExists)
	}
	s.containers[spec.ID] = c // reserves the ID; watchers see it once it is published
	s.mu.Unlock()
	if err := s.launch(c); err != nil {
		s.mu.Lock()
		delete(s.containers, spec.ID)
		s.mu.Unlock()
		return nil, errors.Join(err, remove.All(spec.StateDir))
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
	<-s.namespacesProbed // which cleans up cgroups
	s.makeCgroups(c)
	child, err := s.forkInto(c, c.spec, c.spec.Argv, out.theirs, c.spec.TTY)
	out.closeTheirs()
	if err != nil {
		out.close()
		return errors.Join(err, s.removeCgroups(c))
	}
	if child.cgroup != c.cgroup {
		_ = c.cgroup.remove() // an empty one does no harm
		c.cgroup = noCgroup
	}
	s.confine(c, child)
	child.kept = out.kept
	child.filtered = func(notify *os.File) error { return s.listenFirst(c, notify) }
	s.mu.Lock()
	c.keeping.process = openProcess(child.Process)
	s.dropReused(child.Process)
	c.status.PID, c.status.Born, c.status.Cgroup = child.PID, child.Born, string(c.cgroup)
	c.status.Tag = tag(child.Process, c.spec.StateDir)
	if err = errEnding; !s.ending {
		c.status.Running = true
		// Saved before the program may run: if the supervisor dies now, the next one finds the process.
		err = c.save()
	}
	s.mu.Unlock()
	if err == nil {
		err = child.release()
	}
	if err != nil {
		signalGroup(child.Process, syscall.SIGKILL)
		<-child.exited
		out.close()
		s.mu.Lock()
		s.unlisten(c)
		c.status.Running = false
		close(c.ended)
		s.mu.Unlock()
		return errors.Join(err, s.removeCgroups(c))
	}
	if c.listener == nil {
		s.keeper.hold(c)
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
	c.status.AllDatagrams = child.launch.Filter == wire.MessageFilter && child.refused == ""
	if child.refused != "" {
		c.status.Message = "own address refused: " + child.refused
	}
	s.publish(c)
	s.mu.Unlock()
	s.limit(c)
	go func() {
		status := <-child.exited
		s.exited(c, status)
	}()
}

// listenFirst answers the calls of c's processes. The keeper holds their descriptor before the first program runs.
func (s *supervisor) listenFirst(c *container, notify *os.File) error {
	memory, err := newCall()
	if err != nil {
		logf("%s: %v", c.spec.ID, err) // the next supervisor then misses the call in progress
	}
	s.mu.Lock()
	c.keeping.notify, c.keeping.call = notify, memory
	l, err := s.newListener(c, c.cgroup, notify, memory)
	c.listener = l
	s.mu.Unlock()
	if err != nil {
		return err
	}
	s.keeper.hold(c)
	go l.listen()
	return nil
}

// unlisten closes what answers the calls of c's processes. s.mu must be held.
func (s *supervisor) unlisten(c *container) {
	c.listener.close()
	c.listener = nil
	c.keeping.close()
	c.keeping = keeping{}
	s.keeper.drop(c.spec.ID)
}

// prepare creates the container's directory and the links to its mounts.
func (c *container) prepare() error {
	if err := os.Mkdir(c.spec.StateDir, 0o711); err != nil {
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

// chown makes the container's user the owner of path, if the supervisor runs as root.
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

// child is a forked process that waits for release, and then becomes a program of a container.
type child struct {
	wire.Process
	cgroup cgroup // that it was started in
	tagged bool   // a command that has the container's tag
	exited <-chan syscall.WaitStatus
	conn   *wire.Conn
	launch wire.Launch
	kept   []*os.File // files that go with launch

	// filtered arranges that the calls of the process are answered, before its program runs. It owns the notify descriptor.
	filtered func(notify *os.File) error

	refused      string
	filterUnused chan struct{} // closed when no process has its filter any more; set for commands only
}

// forkInto is fork for a process of c. The process starts outside the cgroup of c if the supervisor lacks the permission
// to start it inside, e.g. as an ordinary user in another login session.
func (s *supervisor) forkInto(c *container, spec *wire.Spec, argv []string, std []*os.File, tty bool) (*child, error) {
	<-s.namespacesProbed
	if c.cgroup != noCgroup {
		child, err := s.fork(c.cgroup, s.namespaces, spec, argv, std, tty)
		if err == nil {
			return child, nil
		}
	}
	return s.fork(noCgroup, s.namespaces, spec, argv, std, tty)
}

// fork makes a child in the cgroup in, with the user, directory, environment, filter and mounts of spec.
func (s *supervisor) fork(in cgroup, n namespaces, spec *wire.Spec, argv []string, std []*os.File, tty bool) (*child, error) {
	conn, theirs, err := wire.Pair()
	if err != nil {
		return nil, err
	}
	cmd := role.Start(role.Launch, argv) // the arguments only show in lists of processes
	attr := &syscall.ProcAttr{Env: cmd.Env, Sys: role.OwnSession()}
	n.start(attr.Sys, spec)
	dir, err := in.start(attr.Sys)
	if err != nil {
		theirs.Close()
		conn.Close()
		return nil, err
	}
	defer dir.Close() // nil without a cgroup
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
	switch {
	case s.routes.leave():
		filter = wire.MessageFilter
	case spec.Address != "":
		filter = wire.AddressFilter
	}
	launch := wire.Launch{Argv: argv, Dir: spec.Dir, Env: spec.Env, UID: spec.UID, GID: spec.GID, Filter: filter, TTY: tty, Security: spec.Security}
	if n != noNamespaces && spec.Namespaced() {
		launch.Mounts, launch.MountDir, launch.Hostname, launch.Links = spec.Mounts, spec.MountDir(), spec.Hostname, spec.Links
	}
	p := wire.Process{PID: pid, Born: born(pid)}
	return &child{Process: p, cgroup: in, exited: exited, conn: conn, launch: launch}, nil
}

// release lets the child become the program. It returns an error if that fails.
func (c *child) release() error {
	defer c.conn.Close()
	if err := c.conn.Send(c.launch, c.kept...); err != nil {
		return fmt.Errorf("start container process: %w", err)
	}
	for {
		var m wire.Launched
		files, err := c.conn.Receive(&m)
		if err != nil {
			return nil // exec has closed it, or the process has died, which its exit status reports
		}
		if m.Error != "" {
			wire.CloseFiles(files)
			return errors.New(m.Error)
		}
		c.refused = m.Refused
		if m.Filtered && len(files) == 1 {
			err := c.filtered(files[0])
			if err == nil {
				err = c.conn.Send(wire.Received{})
			}
			if err != nil {
				return fmt.Errorf("answer the calls of a container: %w", err)
			}
			continue
		}
		wire.CloseFiles(files)
	}
}
