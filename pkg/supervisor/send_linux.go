//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"

	"golang.org/x/sys/unix"
)

// sendto sends a datagram for a Service from a socket that is not connected. The kernel would send one for an address outside loopback out
// of the machine, and one for a port below 1024 to no process, if the daemon may not listen there.
//
// The program sees the address from which the answer comes: the endpoint's, or that of the proxy's other port.
func (l *listener) sendto(n *request) {
	t, ok := l.target(n, n.args[4], n.args[5])
	if !ok || t.port == 0 || t.addr.kind == six || !l.s.routes.concern(t.addr.as4()) {
		l.proceed(n)
		return
	}
	l.withSocketFor(n, func(sock int) (int64, error) {
		protocol, ok := protocolOf(sock)
		switch {
		case !ok:
			return 0, errProceed
		case protocol == unix.IPPROTO_UDP:
			return l.sendService(n, sock, t)
		case n.args[3]&unix.MSG_FASTOPEN != 0:
			return 0, unix.EOPNOTSUPP // programs connect then
		}
		return 0, errProceed // a stream ignores the address
	})
}

// sendService sends the caller's datagram to the Service at t.
func (l *listener) sendService(n *request, sock int, t target) (int64, error) {
	to, err := l.receiver(t)
	if err != nil {
		return 0, err
	}
	if n.args[2] > 1<<16 {
		return 0, unix.EMSGSIZE
	}
	data := make([]byte, n.args[2])
	if err := l.readMemory(n, n.args[1], data); err != nil {
		return 0, err
	}
	// A blocking socket whose buffer is full loses the datagram, since the supervisor must not wait.
	_, err = unix.SendmsgN(sock, data, l.source(to), to.at(to.port), int(int32(n.args[3]))|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if errors.Is(err, unix.EAGAIN) && blocking(sock) && n.args[3]&unix.MSG_DONTWAIT == 0 {
		err = nil
	}
	return int64(len(data)), err
}

// source returns the control message that gives one datagram for to the pod's address as its source. The socket stays as it is, since it may
// send the next one out of the machine.
func (l *listener) source(to target) []byte {
	switch {
	case to.addr.bytes[12] != localhost[0]:
		return nil
	case to.addr.kind == four:
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: l.own.as4()})
	}
	return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: l.own.bytes})
}

func blocking(sock int) bool {
	flags, err := unix.FcntlInt(uintptr(sock), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_NONBLOCK == 0
}

// receiver returns where a datagram for the Service at t goes: to the proxy, which answers from the Service's address, or to an endpoint, if
// no process can listen on that address.
func (l *listener) receiver(t target) (target, error) {
	if t.addr.bytes[12] == localhost[0] {
		port, moved := movedPort(t.port)
		if !moved || !l.sibling(t.addr) {
			return t, errProceed
		}
		t.port = port
		return t, nil
	}
	c, ok := l.s.routes.choose(socketAddress{unix.IPPROTO_UDP, t.addr.as4(), t.port}, l.own.as4(), l.node)
	switch {
	case !ok && l.s.routes.reserved(t.addr.as4()):
		return t, unix.ECONNREFUSED
	case !ok:
		return t, errProceed
	}
	e, ok := c.next()
	if !ok {
		return t, unix.ECONNREFUSED
	}
	to := target{ipOf(e.ip, t.addr.kind), e.port}
	if l.sibling(to.addr) {
		to.port, _ = movedPort(to.port)
	}
	return to, nil
}
