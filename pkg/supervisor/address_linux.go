//go:build linux && (amd64 || arm64)

package supervisor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// target is the socket address of a bind or connect call.
type target struct {
	addr ip
	port uint16
}

// local reports whether the address is the unspecified address or loopback. For a process of a pod, both mean the pod.
func (t target) local() bool { return t.addr.isAny() || t.addr.isLocalhost() }

// binding serializes binds and the checks of taken, which bind a port for a moment.
var binding sync.Mutex

// errProceed leaves a call to the kernel.
var errProceed = errors.New("proceed")

// withSocket answers a call with the result of do on a duplicate of the caller's socket. It closes the duplicate before: a
// port that the caller closes is free at once.
func (l *listener) withSocket(n *request, do func(sock int) error) {
	l.withSocketFor(n, func(sock int) (int64, error) { return 0, do(sock) })
}

// withSocketFor is withSocket for a call whose result is a number.
func (l *listener) withSocketFor(n *request, do func(sock int) (int64, error)) {
	sock, ok := l.socket(n)
	if !ok {
		l.proceed(n)
		return
	}
	val, err := do(sock)
	unix.Close(sock)
	if errors.Is(err, errProceed) {
		l.proceed(n)
		return
	}
	l.doneWith(n, val, err)
}

// bind replaces the unspecified address and loopback by the pod's own address. It does not change a bind to port 0: the
// kernel then chooses a port that is unique on the machine.
func (l *listener) bind(n *request) {
	t, ok := l.target(n, n.args[1], n.args[2])
	if !ok || l.own.kind == noIP || t.port == 0 || !(t.local() || t.addr.same(l.own)) {
		l.proceed(n)
		return
	}
	l.withSocket(n, func(sock int) error {
		if !sameNamespace(n.pid, "net") {
			return errProceed // pods' addresses mean nothing there
		}
		if port, moved := movedPort(t.port); moved {
			t.port = port
		} else if !mayBind(n.pid, t.port) {
			return unix.EACCES
		}
		binding.Lock()
		defer binding.Unlock()
		err := l.bindOwn(sock, t)
		if addr, ok := sockname(sock); n.again && errors.Is(err, unix.EINVAL) && ok && addr.isLocalhost() {
			return nil // the interrupted call has bound the socket to localhost already
		}
		return err
	})
}

// mayBind reports whether the kernel would let the thread tid bind the port. The supervisor may have more privileges than
// the thread.
func mayBind(tid uint32, port uint16) bool {
	return int(port) >= firstUnprivileged() ||
		sameNamespace(tid, "user") && capable(int(tid), unix.CAP_NET_BIND_SERVICE)
}

// firstUnprivileged returns the lowest port that a thread without capabilities may bind.
func firstUnprivileged() int {
	const standard = 1024
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		return standard
	}
	port, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil {
		return standard
	}
	return port
}

// sameNamespace reports whether the thread tid is in the supervisor's namespace of a kind.
func sameNamespace(tid uint32, kind string) bool {
	own, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		return true // a kernel without such namespaces
	}
	theirs, err := os.Readlink("/proc/" + strconv.Itoa(int(tid)) + "/ns/" + kind)
	return err == nil && theirs == own
}

func (l *listener) bindOwn(sock int, t target) error {
	if t.addr.kind == four {
		return bound(sock, unix.Bind(sock, l.address(t.port, false)), l.own)
	}
	only, err := unix.GetsockoptInt(sock, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
	if err == nil && only == 1 {
		// Pods have no IPv6 addresses: an IPv6-only socket gets the IPv4 address.
		err = unix.SetsockoptInt(sock, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err != nil {
		return err
	}
	err = bound(sock, unix.Bind(sock, l.address(t.port, true)), l.own)
	if errors.Is(err, unix.EADDRINUSE) && only == 1 {
		// Probably the pod has bound the port by IPv4 before: web servers bind both families one after the other. The
		// socket for IPv6 then listens on an address that no peer uses.
		return unix.Bind(sock, &unix.SockaddrInet6{Addr: [16]byte{15: 1}})
	}
	return err
}

// bound corrects the result of a bind that was carried out twice because a signal interrupted the caller.
func bound(sock int, err error, own ip) error {
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	if addr, ok := sockname(sock); ok && addr.same(own) {
		return nil
	}
	return err
}

// connect sends a connection to loopback to the pod's own address, if a process of the pod has the port, and one to a Service to an
// endpoint. It gives a connection to another pod the pod's own address as its source. It sends one to a DNS server outside the cluster
// to the pod's resolver.
func (l *listener) connect(n *request) {
	t, ok := l.target(n, n.args[1], n.args[2])
	switch {
	case ok && l.leaves(t):
		l.withSocket(n, func(sock int) error { return l.connectService(n, sock, t) })
	case !ok || t.port == 0 || l.own.kind == noIP:
		l.proceed(n)
	case t.local():
		l.connectSelf(n, t)
	case t.addr.kind != six && l.s.routes.concern(t.addr.as4()):
		l.withSocket(n, func(sock int) error { return l.connectService(n, sock, t) })
	case l.asks(t) && !l.sibling(t.addr):
		l.withSocket(n, func(sock int) error { return l.connectResolver(n, sock, t) })
	case l.sibling(t.addr):
		l.withSocket(n, func(sock int) error { return l.connectSibling(n, sock, t) })
	default:
		l.proceed(n)
	}
}

func (l *listener) connectSelf(n *request, t target) {
	l.withSocket(n, func(sock int) error {
		kind, err := unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_TYPE)
		only := 0
		if err == nil && t.addr.kind != four {
			only, err = unix.GetsockoptInt(sock, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY)
		}
		asked := t
		t.port, _ = movedPort(t.port)
		switch {
		case err != nil || only == 1:
			return errProceed
		case l.taken(kind, t.port):
		case t.addr.kind != six && l.s.routes.concern(localhost): // a node port, or a host port
			return l.connectService(n, sock, target{ipOf(localhost, t.addr.kind), asked.port})
		case l.asks(asked):
			return l.connectResolver(n, sock, asked)
		default:
			return errProceed
		}
		return l.connectOwn(n, sock, l.address(t.port, t.addr.kind != four))
	})
}

// dnsPort is the port of DNS servers.
const dnsPort = 53

// asks reports whether a connection to t asks a DNS server and the pod has a resolver of its own.
func (l *listener) asks(t target) bool { return t.port == dnsPort && l.resolver.kind != noIP }

// connectResolver connects the caller's socket to the pod's resolver, from the pod's address: by that the resolver knows the pod.
func (l *listener) connectResolver(n *request, sock int, t target) error {
	if addr, ok := sockname(sock); ok && addr.isAny() {
		_ = unix.Bind(sock, l.address(0, t.addr.kind != four)) // on an error the resolver does not know the pod's namespace
	}
	t.addr.bytes = l.resolver.bytes
	port, _ := movedPort(t.port)
	return l.connectOwn(n, sock, t.at(port))
}

// connectOwn connects the caller's socket without waiting for room in the server's backlog. If the caller has to wait, its
// own call is continued: the kernel ignores the address of a connect on a socket that is connecting, and waits for the connection.
func (l *listener) connectOwn(n *request, sock int, to unix.Sockaddr) error {
	flags, err := unix.FcntlInt(uintptr(sock), unix.F_GETFL, 0)
	if err != nil {
		return errProceed
	}
	blocking := flags&unix.O_NONBLOCK == 0 || l.call.switched == 1
	if blocking {
		// The caller's threads see the mode, too, but none can read from or write to the socket before it is connected.
		l.call.switched = 1
		_, err = unix.FcntlInt(uintptr(sock), unix.F_SETFL, flags|unix.O_NONBLOCK)
	}
	if err == nil {
		err = unix.Connect(sock, to)
	}
	if blocking {
		_, _ = unix.FcntlInt(uintptr(sock), unix.F_SETFL, flags&^unix.O_NONBLOCK) // succeeded above
		l.call.switched = 0
	}
	switch {
	case blocking && (errors.Is(err, unix.EINPROGRESS) || errors.Is(err, unix.EALREADY)):
		return errProceed
	case n.again && errors.Is(err, unix.EALREADY):
		return unix.EINPROGRESS
	case n.again && errors.Is(err, unix.EISCONN):
		return nil
	}
	return err
}

// taken reports whether a socket has the port at the pod's address.
func (l *listener) taken(kind int, port uint16) bool {
	binding.Lock()
	defer binding.Unlock()
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.Bind(fd, l.address(port, false)) == unix.EADDRINUSE
}

func (l *listener) connectSibling(n *request, sock int, t target) error {
	l.bindSource(sock, t)
	if port, moved := movedPort(t.port); moved {
		return l.connectOwn(n, sock, t.at(port))
	}
	return errProceed
}

// bindSource gives a connection to t the pod's address as its source, if it is a stream and its socket is not bound yet.
func (l *listener) bindSource(sock int, t target) {
	kind, err := unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM {
		return
	}
	if addr, ok := sockname(sock); !ok || !addr.isAny() {
		return
	}
	// The kernel then chooses the port in connect, and may share it with connections to other servers.
	if unix.SetsockoptInt(sock, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) == nil {
		_ = unix.Bind(sock, l.address(0, t.addr.kind != four)) // on an error the source is the host's address
	}
}

// movedPort returns the port on which pods and Services of this daemon have a port below 1024 if the daemon may not bind that: the rule of
// addr.Unprivileged, which this package may not import (package early). Containers expect to bind such ports, as they do in Kubernetes.
func movedPort(port uint16) (other uint16, moved bool) {
	const first = 1024
	if port >= first || int(port) >= firstUnprivileged() || capable(os.Getpid(), unix.CAP_NET_BIND_SERVICE) {
		return port, false
	}
	return port + (1<<16 - first), true
}

// at returns the socket address of another port of the target.
func (t target) at(port uint16) unix.Sockaddr {
	if t.addr.kind != four {
		return &unix.SockaddrInet6{Port: int(port), Addr: t.addr.bytes}
	}
	return &unix.SockaddrInet4{Port: int(port), Addr: t.addr.as4()}
}

// leaves reports whether t has an address of Services that is not on loopback: the kernel would send packets for it out of the machine.
func (l *listener) leaves(t target) bool {
	return t.addr.kind != six && t.addr.as4()[0] != localhost[0] && l.s.routes.concern(t.addr.as4())
}

// sibling reports whether addr belongs to a pod, node or Service of the same daemon: they share the first half of their address.
func (l *listener) sibling(addr ip) bool {
	home := l.own
	if home.kind == noIP {
		home = l.s.routes.home()
	}
	return addr.kind != noIP && home.kind != noIP && [14]byte(addr.bytes[:14]) == [14]byte(home.bytes[:14])
}

// client is the container's address for Services.
func (l *listener) client() [4]byte {
	if l.own.kind == noIP {
		return localhost
	}
	return l.own.as4()
}

func (l *listener) address(port uint16, six bool) unix.Sockaddr {
	if six {
		return &unix.SockaddrInet6{Port: int(port), Addr: l.own.bytes}
	}
	return &unix.SockaddrInet4{Port: int(port), Addr: l.own.as4()}
}

// target reads a socket address from the caller's memory, the call's arguments at and length.
func (l *listener) target(n *request, at, length uint64) (target, bool) {
	buf := make([]byte, min(length&0xffffffff, unix.SizeofSockaddrInet6))
	if len(buf) < unix.SizeofSockaddrInet4 {
		return target{}, false
	}
	if l.readMemory(n, at, buf) != nil {
		return target{}, false
	}
	return parseTarget(buf)
}

// parseTarget parses a socket address in the kernel's form. It returns false if it is none of IPv4 or IPv6.
func parseTarget(buf []byte) (target, bool) {
	if len(buf) < unix.SizeofSockaddrInet4 {
		return target{}, false
	}
	t := target{port: binary.BigEndian.Uint16(buf[2:])}
	switch binary.NativeEndian.Uint16(buf) {
	case unix.AF_INET:
		t.addr = ipFrom4([4]byte(buf[4:8]))
	case unix.AF_INET6:
		if len(buf) < unix.SizeofSockaddrInet6 {
			return target{}, false
		}
		t.addr = ipFrom16([16]byte(buf[8:24]))
	default:
		return target{}, false
	}
	return t, true
}

// socket duplicates the caller's socket.
func (l *listener) socket(n *request) (int, bool) {
	pidfd, err := unix.PidfdOpen(int(n.pid), unix.PIDFD_THREAD)
	if err == unix.EINVAL { // before Linux 6.9
		pidfd, err = unix.PidfdOpen(threadGroup(int(n.pid)), 0)
	}
	if err != nil {
		return -1, false
	}
	defer unix.Close(pidfd)
	sock, err := unix.PidfdGetfd(pidfd, int(int32(n.args[0])), 0)
	if err != nil {
		return -1, false
	}
	if !l.valid(n) {
		unix.Close(sock)
		return -1, false
	}
	return sock, true
}

// threadGroup returns the process of a thread.
func threadGroup(tid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/status")
	if err != nil {
		return tid
	}
	_, rest, ok := bytes.Cut(b, []byte("\nTgid:\t"))
	if !ok {
		return tid
	}
	line, _, _ := bytes.Cut(rest, []byte{'\n'})
	pid, err := strconv.Atoi(string(line))
	if err != nil {
		return tid
	}
	return pid
}
