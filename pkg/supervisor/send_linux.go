//go:build linux && (amd64 || arm64)

package supervisor

import (
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// datagram is what a program sends in one message.
type datagram struct {
	name    []byte // the receiver's socket address in the kernel's form; none: the socket is connected
	data    []byte
	control []byte
}

// Bounds of what the supervisor holds of a datagram.
const (
	maxData    = 1<<16 - 1 // of a datagram, also where the kernel makes several of it
	maxControl = 1 << 16
	maxVectors = 1024 // the kernel's bound of the parts of a message, and of the messages of sendmmsg
)

// sendto sends a datagram for a Service from a socket that is not connected. The kernel would send one for an address outside loopback out
// of the machine, and one for a port below 1024 to no process, if the daemon may not listen there. It also sends what would go to a DNS server
// outside the cluster to the pod's resolver.
//
// The program sees the address from which the answer comes: the endpoint's, or that of another port. In the latter case, and if the resolver
// answers, the supervisor stores that address in place of the one that the program has passed, since programs compare the two (musl's resolver).
func (l *listener) sendto(n *request) {
	t, ok := l.target(n, n.args[4], n.args[5])
	question := ok && l.questions(t)
	if !ok || !question && !l.redirects(t) {
		l.proceed(n)
		return
	}
	l.withDatagrams(n, t, int(int32(n.args[3])), func(sock, flags int) (int64, error) {
		if n.args[2] > maxData {
			return 0, unix.EMSGSIZE
		}
		d := datagram{data: make([]byte, n.args[2])}
		if question {
			if t.local() && l.taken(unix.SOCK_DGRAM, ownPort(t.port)) {
				return 0, errProceed // a server of the pod
			}
			d.name, d.control = target{ip{l.resolver.bytes, t.addr.kind}, ownPort(t.port)}.bytes(), l.source(t)
		} else if err := l.redirect(&d, t); err != nil {
			return 0, err
		}
		if err := l.readMemory(n, n.args[1], d.data); err != nil {
			return 0, err
		}
		if question || t.addr.as4()[0] == localhost[0] {
			if err := l.writeMemory(n, n.args[4], d.name); err != nil {
				return 0, err
			}
		}
		return d.send(sock, flags)
	})
}

// questions reports whether a datagram for t asks a DNS server outside the cluster.
func (l *listener) questions(t target) bool {
	return l.own.kind != noIP && l.asks(t) && !l.sibling(t.addr) && !l.leaves(t)
}

// ownPort returns the port on which the daemon's pods and Services have a port.
func ownPort(port uint16) uint16 {
	port, _ = movedPort(port)
	return port
}

// withDatagrams answers a call that sends datagrams, one of them to t, with the result of do.
func (l *listener) withDatagrams(n *request, t target, flags int, do func(sock, flags int) (int64, error)) {
	l.withSocketFor(n, func(sock int) (int64, error) {
		protocol, ok := protocolOf(sock)
		switch {
		case !ok:
			return 0, l.withoutRoute(t)
		case protocol == unix.IPPROTO_UDP && flags&unix.MSG_ZEROCOPY != 0:
			return 0, unix.ENOBUFS // the kernel would read the supervisor's memory later; programs send again without
		case protocol == unix.IPPROTO_UDP:
			return do(sock, flags)
		case flags&unix.MSG_FASTOPEN != 0:
			return 0, unix.EOPNOTSUPP // programs connect then
		}
		return 0, errProceed // a stream ignores the address
	})
}

// redirects reports whether a datagram for t has another receiver.
func (l *listener) redirects(t target) bool {
	if l.leaves(t) {
		return true
	}
	_, moved := movedPort(t.port)
	return moved && t.port != 0 && l.own.kind != noIP && l.sibling(t.addr)
}

// redirect gives a datagram for t its receiver.
func (l *listener) redirect(d *datagram, t target) error {
	to, err := l.receiver(t)
	if err != nil {
		return err
	}
	d.name = to.bytes()
	if to.addr.as4()[0] != localhost[0] {
		return nil
	}
	rest, err := withoutSource(d.control)
	d.control = append(rest, l.source(to)...)
	return err
}

// withoutSource returns control messages without those that choose the source address or the interface of a datagram.
func withoutSource(control []byte) ([]byte, error) {
	var rest []byte
	for one, err := range controlMessages(control) {
		if err != nil {
			return nil, err
		}
		h := headerOf(one)
		if h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO || h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO {
			continue
		}
		rest = append(rest, one...)
		rest = append(rest, make([]byte, spaceOf(h)-len(one))...)
	}
	return rest, nil
}

// checkPrivileges refuses control messages for which a program needs a capability: the kernel would look for it in the supervisor, which may
// have more of them than the program.
func checkPrivileges(control []byte) error {
	for one, err := range controlMessages(control) {
		if err != nil {
			return err
		}
		switch h := headerOf(one); {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_MARK,
			h.Level == unix.IPPROTO_IP && h.Type == unix.IP_RETOPTS,
			h.Level == unix.IPPROTO_IPV6 && slices.Contains(privilegedOptions, h.Type):
			return unix.EPERM
		}
	}
	return nil
}

// privilegedOptions are the types of IPv6's control messages for which a program needs CAP_NET_RAW.
var privilegedOptions = []int32{unix.IPV6_HOPOPTS, unix.IPV6_DSTOPTS, unix.IPV6_RTHDRDSTOPTS, unix.IPV6_2292HOPOPTS, unix.IPV6_2292DSTOPTS}

// controlMessages yields the control messages of a datagram, each with its header and padding. It ends with an error at one that does not fit.
func controlMessages(control []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for len(control) >= unix.SizeofCmsghdr {
			h := headerOf(control)
			if h.Len < unix.SizeofCmsghdr || h.Len > uint64(len(control)) {
				yield(nil, unix.EINVAL)
				return
			}
			size := min(spaceOf(h), len(control)) // the last one may have no padding
			if !yield(control[:size], nil) {
				return
			}
			control = control[size:]
		}
	}
}

// headerOf returns the header of a control message.
func headerOf(message []byte) *unix.Cmsghdr { return (*unix.Cmsghdr)(unsafe.Pointer(&message[0])) }

// spaceOf returns the size of a control message with its padding.
func spaceOf(h *unix.Cmsghdr) int { return unix.CmsgSpace(int(h.Len) - unix.SizeofCmsghdr) }

// source returns the control message that gives one datagram for to the pod's address as its source. The socket stays as it is, since it may
// send the next one out of the machine.
func (l *listener) source(to target) []byte {
	switch {
	case l.own.kind == noIP:
		return nil
	case to.addr.kind == four:
		return unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: l.own.as4()})
	}
	return unix.PktInfo6(&unix.Inet6Pktinfo{Addr: l.own.bytes})
}

// send sends the datagram. A blocking socket whose buffer is full loses it, since the supervisor must not wait.
func (d *datagram) send(sock, flags int) (int64, error) {
	var part unix.Iovec
	part.SetLen(len(d.data))
	part.Base = unsafe.SliceData(d.data)
	h := unix.Msghdr{Name: unsafe.SliceData(d.name), Namelen: uint32(len(d.name)), Iov: &part, Control: unsafe.SliceData(d.control)}
	h.SetIovlen(1)
	h.SetControllen(len(d.control))
	_, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(sock), uintptr(unsafe.Pointer(&h)), uintptr(flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
	if errno != 0 && !(errno == unix.EAGAIN && flags&unix.MSG_DONTWAIT == 0 && blocking(sock)) {
		return 0, errno
	}
	return int64(len(d.data)), nil
}

func blocking(sock int) bool {
	flags, err := unix.FcntlInt(uintptr(sock), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_NONBLOCK == 0
}

// receiver returns where a datagram for the Service at t goes: to the proxy, which answers from the Service's address, or to an endpoint, if
// no process can listen on that address.
func (l *listener) receiver(t target) (target, error) {
	if t.addr.as4()[0] == localhost[0] {
		t.port, _ = movedPort(t.port)
		return t, nil
	}
	c, ok := l.s.routes.choose(socketAddress{unix.IPPROTO_UDP, t.addr.as4(), t.port}, l.client(), l.node)
	if !ok {
		return t, l.withoutRoute(t)
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

// message is the kernel's struct user_msghdr, and with sent its struct mmsghdr.
type message struct {
	name       uint64
	nameLength int32
	_          int32
	parts      uint64
	partCount  uint64
	control    uint64
	controlLen uint64
	flags      uint64
	sent       uint32
	_          uint32
}

// sizeofMsghdr is the size of a message for sendmsg.
const sizeofMsghdr = unsafe.Offsetof(message{}.sent)

// sendmsg is sendto for a datagram whose address is in the caller's memory.
func (l *listener) sendmsg(n *request) {
	var m message
	if l.readMemory(n, n.args[1], unsafe.Slice((*byte)(unsafe.Pointer(&m)), sizeofMsghdr)) != nil {
		l.proceed(n)
		return
	}
	t, ok := l.receiverOf(n, &m)
	if !ok {
		l.proceed(n)
		return
	}
	l.withDatagrams(n, t, int(int32(n.args[2])), func(sock, flags int) (int64, error) {
		d, err := l.read(n, &m)
		if err != nil {
			return 0, err
		}
		if err := l.redirect(d, t); err != nil {
			return 0, err
		}
		return d.send(sock, flags)
	})
}

// sendmmsg is sendmsg for many datagrams. If one of them needs another receiver, the supervisor sends them all, so that they keep their
// order.
func (l *listener) sendmmsg(n *request) {
	all := make([]message, min(uint32(n.args[2]), maxVectors))
	if len(all) == 0 || l.readMemory(n, n.args[1], bytesOf(all)) != nil {
		l.proceed(n)
		return
	}
	to := make([]target, len(all))
	var first target
	for i := range all {
		if t, ok := l.receiverOf(n, &all[i]); ok {
			to[i] = t
			if first.addr.kind == noIP {
				first = t
			}
		}
	}
	if first.addr.kind == noIP {
		l.proceed(n)
		return
	}
	l.withDatagrams(n, first, int(int32(n.args[3])), func(sock, flags int) (int64, error) {
		for i := range all {
			sent, err := l.sendOne(n, sock, flags, &all[i], to[i])
			if err != nil && i == 0 {
				return 0, err
			}
			if err != nil {
				all = all[:i] // as from the kernel, the program gets the error when it sends the rest
				break
			}
			all[i].sent = uint32(sent)
		}
		return int64(len(all)), l.writeMemory(n, n.args[1], bytesOf(all))
	})
}

func bytesOf(all []message) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(all))), len(all)*int(unsafe.Sizeof(message{})))
}

// sendOne sends a message, to t if that has an address.
func (l *listener) sendOne(n *request, sock, flags int, m *message, t target) (int64, error) {
	d, err := l.read(n, m)
	if err != nil {
		return 0, err
	}
	if t.addr.kind != noIP {
		if err := l.redirect(d, t); err != nil && !errors.Is(err, errProceed) {
			return 0, err
		}
	}
	return d.send(sock, flags)
}

// receiverOf returns the address of a message that needs another receiver; false: the message needs none.
func (l *listener) receiverOf(n *request, m *message) (target, bool) {
	if m.name == 0 {
		return target{}, false
	}
	t, ok := l.target(n, m.name, uint64(uint32(m.nameLength)))
	return t, ok && l.redirects(t)
}

// read reads a message from the caller's memory.
func (l *listener) read(n *request, m *message) (*datagram, error) {
	if m.nameLength < 0 {
		return nil, unix.EINVAL
	}
	if m.controlLen > maxControl {
		return nil, unix.ENOBUFS
	}
	d := &datagram{control: make([]byte, m.controlLen)}
	if m.name != 0 {
		d.name = make([]byte, min(m.nameLength, sizeofStorage))
	}
	var err error
	if d.data, err = l.gather(n, m.parts, m.partCount); err != nil {
		return nil, err
	}
	if err := errors.Join(l.readMemory(n, m.name, d.name), l.readMemory(n, m.control, d.control)); err != nil {
		return nil, err
	}
	return d, checkPrivileges(d.control)
}

// sizeofStorage is the size of struct sockaddr_storage, the longest socket address.
const sizeofStorage = 128

// gather reads the parts of a message from the caller's memory.
func (l *listener) gather(n *request, at, count uint64) ([]byte, error) {
	const size = 16 // of a struct iovec
	if count > maxVectors {
		return nil, unix.EMSGSIZE
	}
	list := make([]byte, count*size)
	if err := l.readMemory(n, at, list); err != nil {
		return nil, err
	}
	var parts []unix.RemoteIovec
	total := 0
	for ; len(list) > 0; list = list[size:] {
		base, length := binary.NativeEndian.Uint64(list), binary.NativeEndian.Uint64(list[8:])
		if int64(length) < 0 {
			return nil, unix.EINVAL
		}
		if length > uint64(maxData-total) {
			return nil, unix.EMSGSIZE
		}
		if length > 0 {
			parts = append(parts, unix.RemoteIovec{Base: uintptr(base), Len: int(length)})
			total += int(length)
		}
	}
	data := make([]byte, total)
	return data, l.readParts(n, parts, data)
}
