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

// setNotify makes f the descriptor on which the system calls of c's processes are answered. The daemon
// gets a copy with the reply to its start, to keep it for the next supervisor. Nil ends it. s.mu must be held.
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
	go s.listen(c, f)
}

// takeNotify takes the notify descriptor that a container's first process has kept; nil if it has not.
func takeNotify(pid int) *os.File {
	return takeKept(pid, wire.KeptFD, func(link string) bool { return link == "anon_inode:seccomp notify" })
}

// takeTerminal returns the supervisor's end of a container's terminal, nil if the container has not kept it.
func takeTerminal(pid int) *os.File {
	return takeKept(pid, wire.KeptTerminal, func(link string) bool { return strings.HasSuffix(link, "/ptmx") })
}

// takeKept returns a descriptor of another process, if it is what it should be.
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

// listenExec answers the calls of a command and what it leaves behind. A new supervisor does not learn of them.
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
		s.listen(c, f)
		f.Close()
		close(child.left)
	}()
}

// pollable returns f as a file that is waited for without a thread, and closes f.
func pollable(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(descriptor(f), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // os takes it as the sign; the ioctls don't mind
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

// listener answers the system calls of the processes under one filter.
type listener struct {
	s    *supervisor
	c    *container
	file *os.File
	own  ip // none: the container shares the host's
}

// listen answers until no process is left under the filter.
func (s *supervisor) listen(c *container, f *os.File) {
	l := &listener{s: s, c: c, file: f}
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

// abandoned tells whether no process is left under the filter of f.
func abandoned(f *os.File) bool {
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
		l.s.joinSession(l.c, threadGroup(int(n.pid)))
		l.proceed(n)
	case unix.SYS_BIND:
		l.bind(n)
	case unix.SYS_CONNECT:
		l.connect(n)
	default:
		l.proceed(n)
	}
}

// proceed lets the kernel carry out the call as it was made.
func (l *listener) proceed(n *notification) {
	l.send(&answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// done answers a call that has been carried out here.
func (l *listener) done(n *notification, err error) {
	a := &answer{id: n.id}
	var errno unix.Errno
	if errors.As(err, &errno) {
		a.errno = -int32(errno)
	}
	l.send(a)
}

func (l *listener) send(a *answer) {
	l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(a)) // fails when the caller was killed meanwhile
}

// valid tells whether the caller still waits. What was read of its memory or descriptors counts only if it does: its
// number may belong to another process otherwise.
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
