//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// setNotify makes f the descriptor on which the supervisor handles the system calls of c's processes; nil closes the
// current one. The daemon receives a copy with the reply to Start, and keeps it for the next supervisor. s.mu must be
// held.
func (s *supervisor) setNotify(c *container, f *os.File) {
	if c.notify != nil {
		c.notify.Close()
	}
	c.notify = nil
	if f == nil {
		return
	}
	f, err := pollable(f)
	if err != nil {
		logf("%s: %v", c.spec.ID, err)
		return
	}
	c.notify = f
	go s.listen(c, c.cgroup, f)
}

// takeNotify duplicates the notify descriptor that a container's first process keeps. It returns nil if there is none.
func takeNotify(pid int) *os.File {
	return takeKept(pid, wire.KeptFD, func(link string) bool { return link == "anon_inode:seccomp notify" })
}

// takeTerminal duplicates the supervisor's end of a terminal that a container's first process keeps. It returns nil if there
// is none.
func takeTerminal(pid int) *os.File {
	return takeKept(pid, wire.KeptTerminal, func(link string) bool { return strings.HasSuffix(link, "/ptmx") })
}

// takeKept duplicates a descriptor of another process, if right accepts the target of its link.
func takeKept(pid, fd int, right func(link string) bool) *os.File {
	link, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/" + strconv.Itoa(fd))
	if err != nil || !right(link) {
		return nil
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(pidfd)
	got, err := unix.PidfdGetfd(pidfd, fd, 0)
	if err != nil {
		logf("process %d: take what it keeps: %v", pid, err)
		return nil
	}
	return os.NewFile(uintptr(got), link)
}

// listenExec handles the system calls of a command and of the processes that it leaves behind. The next supervisor does
// not have their descriptor.
func (s *supervisor) listenExec(c *container, child *child) {
	if child.notify == nil {
		return
	}
	f, err := pollable(child.notify)
	if err != nil {
		logf("%s: %v", c.spec.ID, err)
		return
	}
	child.left = make(chan struct{})
	go func() {
		s.listen(c, child.cgroup, f)
		f.Close()
		close(child.left)
	}()
}

// pollable returns a duplicate of f for the network poller, so that waiting for it takes no thread, and closes f.
func pollable(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(descriptor(f), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // os polls nonblocking files; the ioctls ignore the mode
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "seccomp"), nil
}

// The kernel's struct seccomp_notif and seccomp_notif_resp.
type notification struct {
	id    uint64
	pid   uint32 // of the thread
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type answer struct {
	id    uint64
	val   int64
	errno int32 // negative
	flags uint32
}

// idValid is SECCOMP_IOCTL_NOTIF_ID_VALID in the direction that every kernel understands.
const idValid = 0x80082102

// listener handles the system calls of the processes under one filter.
type listener struct {
	s    *supervisor
	c    *container
	file *os.File
	own  ip // none: the container shares the host's

	cgroup cgroup // that the processes under the filter are in
}

// listen handles calls until no process is left under the filter.
func (s *supervisor) listen(c *container, in cgroup, f *os.File) {
	l := &listener{s: s, c: c, file: f, cgroup: in}
	l.own, _ = parseIP(c.spec.Address)
	raw, err := f.SyscallConn()
	if err != nil {
		logf("%s: %v", c.spec.ID, err)
		return
	}
	for {
		var n notification
		over := false
		err := raw.Read(func(fd uintptr) bool {
			events := pollNow(fd)
			switch {
			case events&unix.POLLIN != 0:
				n = notification{}
				return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) == nil
			case events != 0:
				over = true
				return true
			}
			return false
		})
		if err != nil || over {
			return
		}
		l.handle(&n)
	}
}

// unused reports whether no process is left under the filter of f.
func unused(f *os.File) bool {
	if f == nil {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var events int16
	err = raw.Control(func(fd uintptr) { events = pollNow(fd) })
	return err == nil && events&unix.POLLHUP != 0
}

func pollNow(fd uintptr) int16 {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(p, 0)
		if !errors.Is(err, unix.EINTR) {
			return p[0].Revents
		}
	}
}

func ioctl(fd uintptr, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func (l *listener) handle(n *notification) {
	switch n.nr {
	case unix.SYS_SETSID:
		l.setsid(n)
	case unix.SYS_BIND:
		l.bind(n)
	case unix.SYS_CONNECT:
		l.connect(n)
	default:
		l.proceed(n)
	}
}

// setsid records the session that the caller is about to make. The cgroup of a container makes that unnecessary.
func (l *listener) setsid(n *notification) {
	if l.cgroup == noCgroup {
		pid := threadGroup(int(n.pid))
		leader := wire.Process{PID: pid, Born: born(pid)}
		if l.valid(n) { // so that pid is the caller's
			l.s.joinSession(l.c, leader)
		}
	}
	l.proceed(n)
}

// proceed lets the kernel execute the call unchanged.
func (l *listener) proceed(n *notification) {
	l.send(&answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// done returns the result of a call that the supervisor has carried out.
func (l *listener) done(n *notification, err error) {
	a := &answer{id: n.id}
	var errno unix.Errno
	if errors.As(err, &errno) {
		a.errno = -int32(errno)
	}
	l.send(a)
}

func (l *listener) send(a *answer) {
	l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(a)) // fails if the caller was killed meanwhile
}

// valid reports whether the caller still waits. It must be called after the caller's memory or descriptors were read: if
// the caller has ended, another process may have its number, and what was read may be that process's.
func (l *listener) valid(n *notification) bool {
	return l.control(idValid, unsafe.Pointer(&n.id))
}

func (l *listener) control(request uint, arg unsafe.Pointer) bool {
	raw, err := l.file.SyscallConn()
	if err != nil {
		return false
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = ioctl(fd, request, arg) })
	return err == nil && failed == nil
}
