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

// listenExec answers the system calls of a command and of the processes that it leaves behind. No keeper has its
// descriptor: the calls fail once the supervisor has died, as the command's connection to the daemon has ended then.
func (s *supervisor) listenExec(c *container, child *child, notify *os.File) error {
	defer notify.Close()
	l, err := s.newListener(c, child.cgroup, notify, nil)
	if err != nil {
		return err
	}
	l.tagged = child.tagged
	child.filterUnused = make(chan struct{})
	go func() {
		l.listen()
		l.close()
		close(child.filterUnused)
	}()
	return nil
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

// request is a call that a listener handles.
type request struct {
	notification
	again bool // an earlier supervisor may have carried it out
}

type response struct {
	id    uint64
	val   int64
	errno int32 // negative
	flags uint32
}

// idValid is SECCOMP_IOCTL_NOTIF_ID_VALID in the direction that every kernel understands.
const idValid = 0x80082102

// listener answers the system calls of the processes under one filter, one after the other and without waiting, so that it
// takes one goroutine however many processes make calls.
type listener struct {
	s     *supervisor
	c     *container
	file  *os.File
	call  *call
	unmap func()
	own   ip // none: the container shares the host's, and only what would leave the machine concerns the supervisor
	node  string
	// resolver is the DNS server that takes the place of the machine's; none: the container reaches the machine's.
	resolver ip

	cgroup cgroup // that the processes under the filter are in
	tagged bool   // the processes under the filter have the container's tag
}

// newListener returns the listener on the descriptor f, which stays the caller's. memory holds the call in progress; nil
// if no other supervisor takes it over.
func (s *supervisor) newListener(c *container, in cgroup, f, memory *os.File) (*listener, error) {
	file, err := pollable(f)
	if err != nil {
		return nil, err
	}
	l := &listener{s: s, c: c, file: file, cgroup: in, tagged: c.status.Tag != 0}
	l.own, _ = parseIP(c.spec.Address)
	l.node = c.spec.Node
	l.resolver, _ = parseIP(c.spec.Resolver)
	l.call, l.unmap = mapCall(memory)
	return l, nil
}

// close ends listen. A nil listener has no effect.
func (l *listener) close() {
	if l != nil {
		l.file.Close()
	}
}

// listen answers until no process is left under the filter, first the call that an earlier supervisor has left.
func (l *listener) listen() {
	defer l.unmap()
	raw, err := l.file.SyscallConn()
	if err != nil {
		logf("%s: %v", l.c.spec.ID, err)
		return
	}
	if l.call.id != 0 {
		l.handle(&request{notification: l.call.notification, again: true})
	}
	for {
		l.call.notification = notification{} // the kernel refuses a buffer that is not zero
		over := false
		err := raw.Read(func(fd uintptr) bool {
			for {
				events := pollNow(fd)
				switch {
				case events&unix.POLLIN != 0:
					if ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&l.call.notification)) == nil {
						return true
					} // otherwise the caller was killed
				case events&unix.POLLHUP != 0:
					over = true
					return true
				case events == 0:
					return false
				} // otherwise a signal has interrupted the kernel, and there may be a call
			}
		})
		if err != nil || over {
			return
		}
		l.handle(&request{notification: l.call.notification})
	}
}

// unused reports whether no process is left under the filter. Without a filter this is unknown.
func (l *listener) unused() bool {
	if l == nil {
		return false
	}
	raw, err := l.file.SyscallConn()
	if err != nil {
		return false
	}
	var events int16
	err = raw.Control(func(fd uintptr) { events = pollNow(fd) })
	return err == nil && events&unix.POLLHUP != 0
}

func ioctl(fd uintptr, request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func (l *listener) handle(n *request) {
	switch n.nr {
	case unix.SYS_BIND:
		l.bind(n)
	case unix.SYS_CONNECT:
		l.connect(n)
	case unix.SYS_SENDTO:
		l.sendto(n)
	case unix.SYS_SENDMSG:
		l.sendmsg(n)
	case unix.SYS_SENDMMSG:
		l.sendmmsg(n)
	case unix.SYS_GETPEERNAME:
		l.getpeername(n)
	default: // the filters report nothing else; its number depends on the ABI of the caller
		l.setsid(n)
	}
}

// setsid records the session that the caller is about to create, unless the caller has the cgroup or the tag of the container.
// It refuses the session if the container is being killed.
func (l *listener) setsid(n *request) {
	l.s.mu.Lock()
	killing := l.c.killing
	l.s.mu.Unlock()
	if killing {
		l.done(n, unix.EPERM)
		return
	}
	if l.cgroup == noCgroup && !l.tagged {
		pid := threadGroup(int(n.pid))
		leader := wire.Process{PID: pid, Born: born(pid)}
		if l.valid(n) { // so that pid is the caller's
			l.s.joinSession(l.c, leader)
		}
	}
	l.proceed(n)
}

// proceed lets the kernel execute the call unchanged.
func (l *listener) proceed(n *request) {
	l.send(&response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// done returns the result of a call that the supervisor has carried out.
func (l *listener) done(n *request, err error) { l.doneWith(n, 0, err) }

// doneWith returns the value val, unless there is an error.
func (l *listener) doneWith(n *request, val int64, err error) {
	r := &response{id: n.id, val: val}
	var errno unix.Errno
	if errors.As(err, &errno) {
		r.val, r.errno = 0, -int32(errno)
	}
	l.send(r)
}

func (l *listener) send(r *response) {
	l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r)) // fails if the caller was killed meanwhile
}

// valid reports whether the caller still waits. It must be called after the caller's memory or descriptors were read: if
// the caller has ended, another process may have its number, and what was read may be that process's.
func (l *listener) valid(n *request) bool {
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
