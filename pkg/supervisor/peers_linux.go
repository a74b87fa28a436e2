//go:build linux && (amd64 || arm64)

package supervisor

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// peers are the addresses that the programs of pods have connected to, where those are not the addresses that the kernel knows: of the
// sockets that have taken a route. They are safe for concurrent use.
type peers struct {
	mu       sync.Mutex
	bySocket map[uint64]peer // by inode
	sweepAt  int             // the size at which closed sockets are forgotten
	sweeping bool
}

// peer is the address that a program has connected to, and the endpoint that its socket is connected to.
type peer struct {
	asked target
	to    endpoint
}

// firstSweep is the number of sockets from which on closed ones are forgotten.
const firstSweep = 4096

// set records the peer of a socket.
func (p *peers) set(sock int, to peer) {
	inode, ok := inodeOf(sock)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bySocket == nil {
		p.bySocket, p.sweepAt = map[uint64]peer{}, firstSweep
	}
	p.bySocket[inode] = to
	if len(p.bySocket) >= p.sweepAt && !p.sweeping {
		p.sweeping = true
		go p.sweep()
	}
}

// get returns the peer of a socket.
func (p *peers) get(sock int) (peer, bool) {
	inode, ok := inodeOf(sock)
	if !ok {
		return peer{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	got, ok := p.bySocket[inode]
	return got, ok
}

// empty reports whether no socket has a peer of its own, so that none needs a look.
func (p *peers) empty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.bySocket) == 0
}

// sweep forgets the sockets that are closed.
func (p *peers) sweep() {
	p.mu.Lock()
	before := make(map[uint64]struct{}, len(p.bySocket))
	for inode := range p.bySocket {
		before[inode] = struct{}{}
	}
	p.mu.Unlock()
	open, ok := openSockets()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweeping = false
	if !ok {
		p.bySocket = map[uint64]peer{} // unknown: programs then see the endpoints
		return
	}
	kept := map[uint64]peer{} // a map does not shrink
	for inode, to := range p.bySocket {
		_, old := before[inode]
		if _, is := open[inode]; is || !old {
			kept[inode] = to
		}
	}
	p.bySocket, p.sweepAt = kept, max(firstSweep, 2*len(kept))
}

// openSockets returns the inodes of the internet sockets of this network namespace.
func openSockets() (map[uint64]struct{}, bool) {
	open := map[uint64]struct{}{}
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		f, err := os.Open("/proc/net/" + table)
		if err != nil {
			if table == "tcp6" || table == "udp6" {
				continue // a kernel without IPv6
			}
			return nil, false
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			const field = 9
			if inode, err := strconv.ParseUint(string(nthField(lines.Bytes(), field)), 10, 64); err == nil && inode != 0 {
				open[inode] = struct{}{}
			}
		}
		err = lines.Err()
		f.Close()
		if err != nil {
			return nil, false
		}
	}
	return open, true
}

// nthField returns a field of a line, counted from 0.
func nthField(line []byte, n int) []byte {
	for {
		line = bytes.TrimLeft(line, " ")
		end := bytes.IndexByte(line, ' ')
		if end < 0 {
			end = len(line)
		}
		if n == 0 {
			return line[:end]
		}
		if end == len(line) {
			return nil
		}
		line, n = line[end:], n-1
	}
}

// inodeOf identifies a socket: no other has its inode while it exists.
func inodeOf(sock int) (uint64, bool) {
	var st unix.Stat_t
	if unix.Fstat(sock, &st) != nil {
		return 0, false
	}
	return st.Ino, true
}

// getpeername returns the address that the program has connected to, if the socket has taken a route from there.
func (l *listener) getpeername(n *request) {
	if l.s.routes.peers.empty() {
		l.proceed(n)
		return
	}
	l.withSocket(n, func(sock int) error {
		got, ok := l.s.routes.peers.get(sock)
		if !ok || !connectedTo(sock, got.to) {
			return errProceed
		}
		return l.writeName(n, got.asked, n.args[1], n.args[2])
	})
}

// connectedTo reports whether a socket is connected to an endpoint.
func connectedTo(sock int, e endpoint) bool {
	name, err := unix.Getpeername(sock)
	if err != nil {
		return false
	}
	port := e.port
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		moved, _ := movedPort(port)
		return a.Addr == e.ip && (a.Port == int(port) || a.Port == int(moved))
	case *unix.SockaddrInet6:
		moved, _ := movedPort(port)
		return ipFrom16(a.Addr).as4() == e.ip && (a.Port == int(port) || a.Port == int(moved))
	}
	return false
}

// writeName stores a socket address in the memory of the caller, as the kernel does for getpeername: cut to the room that the caller
// has, with the whole length.
func (l *listener) writeName(n *request, t target, at, lengthAt uint64) error {
	name := t.bytes()
	var room [4]byte
	if err := l.readMemory(n, lengthAt, room[:]); err != nil {
		return err
	}
	size := int32(binary.NativeEndian.Uint32(room[:]))
	if size < 0 {
		return unix.EINVAL
	}
	if err := l.writeMemory(n, at, name[:min(len(name), int(size))]); err != nil {
		return err
	}
	binary.NativeEndian.PutUint32(room[:], uint32(len(name)))
	return l.writeMemory(n, lengthAt, room[:])
}

// bytes returns the socket address in the kernel's form.
func (t target) bytes() []byte {
	family, size := uint16(unix.AF_INET), unix.SizeofSockaddrInet4
	if t.addr.kind != four {
		family, size = unix.AF_INET6, unix.SizeofSockaddrInet6
	}
	b := make([]byte, size)
	binary.NativeEndian.PutUint16(b, family)
	binary.BigEndian.PutUint16(b[2:], t.port)
	if family == unix.AF_INET {
		ip := t.addr.as4()
		copy(b[4:], ip[:])
	} else {
		copy(b[8:], t.addr.bytes[:])
	}
	return b
}

// readMemory fills b from the memory of the caller.
func (l *listener) readMemory(n *request, at uint64, b []byte) error {
	return l.readParts(n, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, b)
}

// readParts fills b from several places in the memory of the caller.
func (l *listener) readParts(n *request, remote []unix.RemoteIovec, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	if read, err := unix.ProcessVMReadv(int(n.pid), local, remote, 0); err != nil || read != len(b) || !l.valid(n) {
		return unix.EFAULT
	}
	return nil
}

// writeMemory stores b in the memory of the caller. The file stays that of the caller even if it ends and another process gets its
// number.
func (l *listener) writeMemory(n *request, at uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	fd, err := unix.Open("/proc/"+strconv.Itoa(int(n.pid))+"/mem", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return unix.EFAULT
	}
	defer unix.Close(fd)
	if !l.valid(n) {
		return unix.EFAULT
	}
	if written, err := unix.Pwrite(fd, b, int64(at)); err != nil || written != len(b) {
		return unix.EFAULT
	}
	return nil
}
