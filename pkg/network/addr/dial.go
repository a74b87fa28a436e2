package addr

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
)

// Dial returns the DialContext of d for the addresses of pods, among others: it also finds a port below 1024 of a pod whose daemon may
// not listen on such ports (Unprivileged).
func Dial(d *net.Dialer) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := d.DialContext(ctx, network, address)
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return conn, err
		}
		at, parseErr := netip.ParseAddrPort(address)
		if parseErr != nil || !inRange(at.Addr()) {
			return conn, err
		}
		port, ok := Unprivileged(at.Port())
		if !ok {
			return conn, err
		}
		if other, otherErr := d.DialContext(ctx, network, netip.AddrPortFrom(at.Addr(), port).String()); otherErr == nil {
			return other, nil
		}
		return nil, err // about the port that the caller knows
	}
}

// inRange reports whether an address is in the range of some daemon.
func inRange(ip netip.Addr) bool {
	ip = ip.Unmap()
	if !ip.Is4() {
		return false
	}
	b := ip.As4()
	return b[0] == 127 && Range(b[1]).Valid()
}
