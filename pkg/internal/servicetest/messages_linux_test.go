package servicetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// messages sends a datagram to each receiver from one socket that is not connected. It returns what the call has returned, and then the servers that
// have answered, in the order of their names.
func messages(c command) []result {
	var addresses []*net.UDPAddr
	for _, to := range c.To {
		addresses = append(addresses, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(to)))
	}
	if c.What == "python" {
		return []result{python(addresses[0])}
	}
	conn, err := net.ListenUDP(c.Network, nil)
	if err != nil {
		return []result{failure(err)}
	}
	defer conn.Close()
	sent, err := sendBy[c.What](conn, addresses)
	r := failure(err)
	r.Sent = sent
	all := []result{r}
	for range r.Sent {
		_ = conn.SetDeadline(time.Now().Add(silence))
		b := make([]byte, 256)
		n, from, err := conn.ReadFromUDPAddrPort(b)
		if err != nil {
			all = append(all, failure(err))
			continue
		}
		server, _, _ := strings.Cut(string(b[:n]), " ")
		all = append(all, result{Server: server, Peer: from.String()})
	}
	slices.SortFunc(all[1:], func(a, b result) int { return strings.Compare(a.Server, b.Server) })
	return all
}

// sendBy are the ways to send a datagram to each address. They return the lengths that the kernel reports.
var sendBy = map[string]func(*net.UDPConn, []*net.UDPAddr) ([]int, error){
	"sendmsg": func(conn *net.UDPConn, to []*net.UDPAddr) (sent []int, err error) {
		for _, a := range to {
			n, _, err := conn.WriteMsgUDP([]byte(nameRequest), nil, a)
			if err != nil {
				return sent, err
			}
			sent = append(sent, n)
		}
		return sent, nil
	},
	"sendmmsg": func(conn *net.UDPConn, to []*net.UDPAddr) ([]int, error) { return sendmmsg(conn, to, "") },
	// By the machine's own address as the source, as a server with several addresses answers.
	"sendmmsg with a source": func(conn *net.UDPConn, to []*net.UDPAddr) ([]int, error) {
		return sendmmsg(conn, to, ownAddress)
	},
	"segments": func(conn *net.UDPConn, to []*net.UDPAddr) ([]int, error) {
		size := make([]byte, unix.CmsgSpace(2))
		h := (*unix.Cmsghdr)(unsafe.Pointer(&size[0]))
		h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
		h.SetLen(unix.CmsgLen(2))
		binary.NativeEndian.PutUint16(size[unix.CmsgLen(0):], uint16(len(nameRequest)))
		n, _, err := conn.WriteMsgUDP([]byte(nameRequest+nameRequest), size, to[0])
		return []int{n / 2, n / 2}, err
	},
}

// sendmmsg sends each datagram in two parts, from the source if there is one.
func sendmmsg(conn *net.UDPConn, to []*net.UDPAddr, source string) (sent []int, err error) {
	type header struct {
		unix.Msghdr
		sent uint32
		_    uint32
	}
	half := len(nameRequest) / 2
	first, second := []byte(nameRequest[:half]), []byte(nameRequest[half:])
	parts := []unix.Iovec{{Base: &first[0], Len: uint64(half)}, {}, {Base: &second[0], Len: uint64(len(second))}}
	var control []byte
	if source != "" {
		control = unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: netip.MustParseAddr(source).As4()})
	}
	names := make([]unix.RawSockaddrInet4, len(to))
	all := make([]header, len(to))
	for i, a := range to {
		names[i] = rawAddress(netip.AddrPortFrom(netip.AddrFrom4([4]byte(a.IP.To4())), uint16(a.Port)))
		all[i].Msghdr = unix.Msghdr{Name: (*byte)(unsafe.Pointer(&names[i])), Namelen: unix.SizeofSockaddrInet4, Iov: &parts[0], Control: unsafe.SliceData(control)}
		all[i].SetIovlen(len(parts))
		all[i].SetControllen(len(control))
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var errno syscall.Errno
	var n uintptr
	err = raw.Control(func(fd uintptr) {
		n, _, errno = unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&all[0])), uintptr(len(all)), 0, 0, 0)
	})
	if err != nil || errno != 0 {
		return nil, errors.Join(err, errno)
	}
	for _, h := range all[:n] {
		sent = append(sent, int(h.sent))
	}
	return sent, nil
}

const pythonScript = `
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(float(sys.argv[3]))
try:
    s.sendmsg([b"na", b"", b"mes"], [], 0, (sys.argv[1], int(sys.argv[2])))
    print(s.recv(256).decode().split()[0])
except ConnectionRefusedError:
    print("refused")
`

// python sends with Python's socket.sendmsg.
func python(to *net.UDPAddr) result {
	out, err := exec.Command("python3", "-c", pythonScript, to.IP.String(), strconv.Itoa(to.Port), strconv.FormatFloat(silence.Seconds(), 'f', 1, 64)).CombinedOutput()
	if err != nil {
		return result{Err: fmt.Sprintf("%v: %s", err, out)}
	}
	if server := strings.TrimSpace(string(out)); server != "refused" {
		return result{Server: server}
	}
	return result{Err: "refused", Refused: true}
}

// asResolver sends a datagram, and ignores answers from another address than the variable that it has passed, as musl's resolver does.
func asResolver(address string) result {
	at := netip.MustParseAddrPort(address)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failure(err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(silence.Seconds())}); err != nil {
		return failure(err)
	}
	server, from := rawAddress(at), unix.RawSockaddrInet4{}
	size := uint32(unix.SizeofSockaddrInet4)
	request, answer := []byte(nameRequest), make([]byte, 256)
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&request[0])), uintptr(len(request)), 0,
		uintptr(unsafe.Pointer(&server)), unix.SizeofSockaddrInet4)
	if errno != 0 {
		return failure(errno)
	}
	n, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&answer[0])), uintptr(len(answer)), 0,
		uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&size)))
	switch {
	case errno != 0:
		return failure(errno)
	case from != server:
		return result{Err: fmt.Sprintf("an answer from %v, which is not %v", from, server)}
	}
	name, _, _ := strings.Cut(string(answer[:n]), " ")
	return result{Server: name}
}

func rawAddress(at netip.AddrPort) unix.RawSockaddrInet4 {
	a := unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: at.Addr().As4()}
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&a.Port))[:], at.Port())
	return a
}

// wrongMessages sends messages that the kernel refuses to two addresses, and compares the errors.
func wrongMessages(a, b string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	data, nowhere := make([]byte, 1<<16), (*byte)(nil)
	part := func(base *byte, length uint64) []unix.Iovec { return []unix.Iovec{{Base: base, Len: length}} }
	short := make([]byte, unix.SizeofCmsghdr)
	for name, m := range map[string]struct {
		parts       []unix.Iovec
		control     *byte
		controlSize int
		flags       int
	}{
		"nothing wrong":               {parts: part(&data[0], 1), flags: unix.MSG_DONTWAIT},
		"empty":                       {},
		"a byte too long":             {parts: part(&data[0], 65508)},
		"longer than a datagram":      {parts: part(&data[0], 1<<16)},
		"longer in parts":             {parts: append(part(&data[0], 1<<15), part(&data[0], 1<<15)...)},
		"a negative length":           {parts: part(&data[0], 1<<63)},
		"data at no address":          {parts: part(nowhere, 1)},
		"an empty part at no address": {parts: append(part(nowhere, 0), part(&data[0], 1)...)},
		"too many parts":              {parts: make([]unix.Iovec, 1025)},
		"a control message too short": {parts: part(&data[0], 1), control: &short[0], controlSize: len(short)},
		"control at no address":       {parts: part(&data[0], 1), control: nowhere, controlSize: 24},
		"out of band":                 {parts: part(&data[0], 1), flags: unix.MSG_OOB},
	} {
		for _, call := range []uintptr{unix.SYS_SENDMSG, unix.SYS_SENDMMSG} {
			var got [2]syscall.Errno
			for i, to := range []string{a, b} {
				to := rawAddress(netip.MustParseAddrPort(to))
				var h struct {
					unix.Msghdr
					sent uint64
				}
				h.Name, h.Namelen = (*byte)(unsafe.Pointer(&to)), unix.SizeofSockaddrInet4
				h.Iov, h.Control = unsafe.SliceData(m.parts), m.control
				h.SetIovlen(len(m.parts))
				h.SetControllen(m.controlSize)
				if call == unix.SYS_SENDMSG {
					_, _, got[i] = unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&h)), uintptr(m.flags))
				} else {
					_, _, got[i] = unix.Syscall6(call, uintptr(fd), uintptr(unsafe.Pointer(&h)), 1, uintptr(m.flags), 0, 0)
				}
			}
			if got[0] != got[1] {
				err = errors.Join(err, fmt.Errorf("%s: %v (%d) to %s, %v (%d) to %s", name, got[0], got[0], a, got[1], got[1], b))
			}
		}
	}
	return err
}

// stream sends by sendmsg on a TCP connection, with an address, which the kernel ignores, and without one.
func stream(address string) error {
	at := netip.MustParseAddrPort(address)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	to := &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	if err := unix.Connect(fd, to); err != nil {
		return err
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: int64(patience.Seconds())}); err != nil {
		return err
	}
	for _, name := range []unix.Sockaddr{nil, to} {
		if n, err := unix.SendmsgN(fd, []byte("stream"), nil, name, 0); err != nil || n != len("stream") {
			return fmt.Errorf("sendmsg: %d, %w", n, err)
		}
	}
	var got []byte
	b := make([]byte, 256)
	for !bytes.HasSuffix(got, []byte("\nstreamstream")) { // after the line of the server
		n, err := unix.Read(fd, b)
		if err != nil || n == 0 {
			return fmt.Errorf("got %q: %w", got, err)
		}
		got = append(got, b[:n]...)
	}
	return nil
}

// refusedCall makes a call that would send packets past the supervisor.
func refusedCall(c command) error {
	to := &unix.SockaddrInet4{Addr: netip.MustParseAddrPort(c.Address).Addr().As4()}
	switch c.What {
	case "io_uring":
		var parameters [120]byte
		fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&parameters)), 0)
		if errno == 0 {
			return unix.Close(int(fd))
		}
		return errno
	case "raw, connect", "raw, sendto":
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if c.What == "raw, connect" {
			return unix.Connect(fd, to)
		}
		return unix.Sendto(fd, []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}, 0, to) // an echo request
	}
	return fmt.Errorf("unknown call %q", c.What)
}
