//go:build linux && (amd64 || arm64)

package supervisor

import "golang.org/x/sys/unix"

// ip is an IPv4 address, or an IPv6 one that no pod has. (Package net/netip initialises too late: see package early.)
type ip struct {
	bytes [16]byte // as IPv6: an IPv4 address is mapped
	kind  ipKind
}

type ipKind int8

const (
	noIP ipKind = iota
	four
	mapped // an IPv4 address in an IPv6 socket
	six
)

var mappedPrefix = [12]byte{10: 0xff, 11: 0xff}

func ipFrom4(b [4]byte) ip {
	a := ip{kind: four}
	copy(a.bytes[:], mappedPrefix[:])
	copy(a.bytes[12:], b[:])
	return a
}

// ipOf returns an IPv4 address for a socket of the family that an address of that kind is for.
func ipOf(b [4]byte, kind ipKind) ip {
	a := ipFrom4(b)
	if kind != four {
		a.kind = mapped
	}
	return a
}

// localhost is 127.0.0.1.
var localhost = [4]byte{127, 0, 0, 1}

func ipFrom16(b [16]byte) ip {
	if [12]byte(b[:12]) == mappedPrefix {
		return ip{b, mapped}
	}
	return ip{b, six}
}

func (a ip) as4() [4]byte { return [4]byte(a.bytes[12:]) }

// isAny reports whether a is 0.0.0.0 or ::.
func (a ip) isAny() bool {
	if a.kind == six {
		return a.bytes == [16]byte{}
	}
	return a.kind != noIP && a.as4() == [4]byte{}
}

// isLocalhost reports whether a is 127.0.0.1 or ::1.
func (a ip) isLocalhost() bool {
	if a.kind == six {
		return a.bytes == [16]byte{15: 1}
	}
	return a.kind != noIP && a.as4() == [4]byte{127, 0, 0, 1}
}

// same reports whether a and b are one IPv4 address, mapped or not.
func (a ip) same(b ip) bool { return a.kind != noIP && b.kind != noIP && a.bytes == b.bytes }

// parseIP parses an IPv4 address in dotted-decimal form.
func parseIP(s string) (ip, bool) {
	var b [4]byte
	part, n, digits := 0, 0, 0
	for i := range len(s) + 1 {
		switch {
		case i == len(s) || s[i] == '.':
			if digits == 0 || part > 3 || (i == len(s)) != (part == 3) {
				return ip{}, false
			}
			b[part] = byte(n)
			part, n, digits = part+1, 0, 0
		case s[i] >= '0' && s[i] <= '9':
			n, digits = 10*n+int(s[i]-'0'), digits+1
			if n > 255 {
				return ip{}, false
			}
		default:
			return ip{}, false
		}
	}
	return ipFrom4(b), true
}

// sockname returns the address that a socket is bound to.
func sockname(sock int) (ip, bool) {
	name, err := unix.Getsockname(sock)
	if err != nil {
		return ip{}, false
	}
	switch a := name.(type) {
	case *unix.SockaddrInet4:
		return ipFrom4(a.Addr), true
	case *unix.SockaddrInet6:
		return ipFrom16(a.Addr), true
	}
	return ip{}, false
}
