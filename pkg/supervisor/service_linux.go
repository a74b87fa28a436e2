//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"

	"golang.org/x/sys/unix"
)

// connectService connects the caller's socket to an endpoint of the Service at t: to the next one if one refuses. Without endpoints the
// connection is refused. An address without a route is the daemon's, if it is in the daemon's range, and otherwise must not be reached.
func (l *listener) connectService(n *request, sock int, t target) error {
	protocol, ok := protocolOf(sock)
	if !ok {
		return l.withoutRoute(t)
	}
	c, ok := l.s.routes.choose(socketAddress{protocol, t.addr.as4(), t.port}, l.client(), l.node)
	switch {
	case ok:
		return l.connectEndpoints(n, sock, t, &c)
	case l.sibling(t.addr):
		return l.connectSibling(n, sock, t)
	case l.s.routes.reserved(t.addr.as4()):
		return unix.ECONNREFUSED
	case l.asks(t):
		return l.connectResolver(n, sock, t)
	}
	return errProceed
}

// withoutRoute refuses an address that can only be a Service's, and leaves others to the kernel.
func (l *listener) withoutRoute(t target) error {
	if l.s.routes.reserved(t.addr.as4()) && !l.sibling(t.addr) {
		return unix.ECONNREFUSED
	}
	return errProceed
}

// connectEndpoints connects the caller's socket to the first endpoint that does not refuse.
func (l *listener) connectEndpoints(n *request, sock int, asked target, c *choice) error {
	for {
		e, ok := c.next()
		if !ok {
			return unix.ECONNREFUSED
		}
		to := target{ipOf(e.ip, asked.addr.kind), e.port}
		if e.ip[0] == localhost[0] {
			l.bindOwnSource(sock, to)
		}
		if l.sibling(to.addr) {
			to.port, _ = movedPort(to.port)
		}
		l.s.routes.peers.set(sock, peer{asked, e})
		err := l.connectOwn(n, sock, to.at(to.port))
		if !refused(sock, to.at(to.port), err) {
			return err
		}
	}
}

// refused reports whether a connection was refused, given the result of connect. On this machine that is settled when connect returns. The
// socket can then be connected again.
func refused(sock int, to unix.Sockaddr, err error) bool {
	if (errors.Is(err, unix.EINPROGRESS) || errors.Is(err, errProceed)) && pollNow(uintptr(sock))&(unix.POLLERR|unix.POLLHUP) != 0 {
		err = unix.Connect(sock, to) // returns the error, and does not wait
	}
	return errors.Is(err, unix.ECONNREFUSED)
}

// bindOwnSource gives a connection or the packets to t the pod's address as their source, if the socket is not bound yet.
func (l *listener) bindOwnSource(sock int, t target) {
	if addr, ok := sockname(sock); !ok || !addr.isAny() || l.own.kind == noIP {
		return
	}
	// The kernel then chooses the port in connect, and may share it with connections to other servers.
	_ = unix.SetsockoptInt(sock, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	_ = unix.Bind(sock, l.address(0, t.addr.kind != four)) // on an error the source is the host's address
}

// protocolOf returns the protocol of a socket that may take a route.
func protocolOf(sock int) (uint8, bool) {
	kind, err := unix.GetsockoptInt(sock, unix.SOL_SOCKET, unix.SO_TYPE)
	switch {
	case err != nil:
		return 0, false
	case kind == unix.SOCK_STREAM:
		return unix.IPPROTO_TCP, true
	case kind == unix.SOCK_DGRAM:
		return unix.IPPROTO_UDP, true
	}
	return 0, false
}
