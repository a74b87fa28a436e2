// Package addr owns the loopback addresses of pods: which daemon of this machine has which 127.N.0.0/16 range, and which pod
// has which address. Daemons claim ranges in a directory of the user, so that two daemons never share one. A Pool allocates the
// addresses of a range. Its caller keeps allocated addresses on disk, and reserves them again when it starts.
package addr

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
)

// Range is the range 127.N.0.0/16, identified by N.
type Range uint8

// These are the bounds of the ranges. 127.0 and 127.1 stay free for the machine (127.0.0.1, 127.0.0.53, 127.0.1.1) and
// its users.
const (
	First Range = 2
	Last  Range = 254
)

// firstPod is the lowest host part of a pod's address. The addresses below it are for Own.
const firstPod = 1 << 8

// Prefix returns the range as a prefix.
func (r Range) Prefix() netip.Prefix { return netip.PrefixFrom(r.host(0), 16) }

// Valid reports whether r is within First and Last.
func (r Range) Valid() bool { return r >= First && r <= Last }

// firstLoadBalancer is the lowest host part of a load balancer's address. Pods have those below it.
const firstLoadBalancer = firstService - 1<<8

// LoadBalancers returns the part of the range that the addresses of Services of type LoadBalancer come from.
func (r Range) LoadBalancers() netip.Prefix { return netip.PrefixFrom(r.host(firstLoadBalancer), 24) }

// firstService is the lowest host part of a Service's address.
const firstService = 1 << 15

// Services returns the part of the range that the addresses of Services come from.
func (r Range) Services() netip.Prefix { return netip.PrefixFrom(r.host(firstService), 17) }

// firstUnprivileged is the lowest port that every user may listen on, and privilegedAt the number by which Unprivileged moves lower ones.
const (
	firstUnprivileged = 1024
	privilegedAt      = 1<<16 - firstUnprivileged
)

// Unprivileged returns the port on which pods and Services have a port below 1024 if their daemon may not listen on that. ok is false for
// other ports, which need no other one. The supervisor knows the same rule (pkg/supervisor/address_linux.go).
func Unprivileged(port uint16) (other uint16, ok bool) {
	if port >= firstUnprivileged {
		return 0, false
	}
	return port + privilegedAt, true
}

// Own returns the n-th address, from 1 to 255, for nodes and services of the daemon.
func (r Range) Own(n uint8) netip.Addr { return r.host(uint16(n)) }

func (r Range) host(n uint16) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(r), byte(n >> 8), byte(n)})
}

// ErrExhausted means that all ranges, or all addresses of a range, are in use.
var ErrExhausted = errors.New("no address is left")

// Pool allocates the addresses of a range. It is safe for concurrent use.
type Pool struct {
	from Range

	mu   sync.Mutex
	used map[uint16]struct{}
	next uint16
}

// NewPool returns a pool of the addresses of r, all free.
func NewPool(r Range) *Pool { return &Pool{from: r, used: map[uint16]struct{}{}, next: firstPod} }

// Allocate returns a free address. It reuses a released address as late as possible.
func (p *Pool) Allocate() (netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range 1 << 16 {
		n := p.next
		p.next++
		if p.next < firstPod || p.next >= firstLoadBalancer {
			p.next = firstPod
		}
		if !usable(n) {
			continue
		}
		if _, taken := p.used[n]; !taken {
			p.used[n] = struct{}{}
			return p.from.host(n), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s: %w", p.from.Prefix(), ErrExhausted)
}

// usable reports whether an address is a pod's and does not look like a network or broadcast address.
func usable(n uint16) bool {
	return n >= firstPod && n < firstLoadBalancer && byte(n) != 0 && byte(n) != 255
}

// Reserve marks an address as in use. It returns false if the address was in use or is not in the pool.
func (p *Pool) Reserve(a netip.Addr) bool {
	n, ok := p.hostPart(a)
	if !ok {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, taken := p.used[n]; taken {
		return false
	}
	p.used[n] = struct{}{}
	if n >= p.next {
		p.next = n + 1 // Allocate begins again at firstPod after the last one
	}
	return true
}

// Release frees an address. Idempotent.
func (p *Pool) Release(a netip.Addr) {
	n, ok := p.hostPart(a)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, n)
}

func (p *Pool) hostPart(a netip.Addr) (uint16, bool) {
	if !a.Is4() || !p.from.Prefix().Contains(a) {
		return 0, false
	}
	b := a.As4()
	n := uint16(b[2])<<8 | uint16(b[3])
	return n, usable(n)
}
