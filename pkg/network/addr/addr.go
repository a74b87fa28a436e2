// Package addr owns the loopback addresses of pods: which 127.N.0.0/16 range belongs to which daemon of this machine, and
// which address of the range to which pod. Ranges are claimed in a folder of the user, so that daemons side by side never
// share one; addresses are handed out by a Pool, whose caller keeps them on disk and reserves them again at its start.
package addr

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
)

// Range is 127.N.0.0/16, known by its N.
type Range uint8

// The ranges there are. 127.0 and 127.1 are left to the machine (127.0.0.1, 127.0.0.53, 127.0.1.1) and to people.
const (
	First Range = 2
	Last  Range = 254
)

// firstPod is the lowest host part of a pod's address. Those below are the daemon's own: see Own.
const firstPod = 1 << 8

// Prefix returns the range as a prefix.
func (r Range) Prefix() netip.Prefix { return netip.PrefixFrom(r.host(0), 16) }

// Valid tells whether r is a range that daemons may have.
func (r Range) Valid() bool { return r >= First && r <= Last }

// Own returns the n-th address, from 1 to 255, that the range keeps for what is not a pod: nodes and services of the daemon.
func (r Range) Own(n uint8) netip.Addr { return r.host(uint16(n)) }

func (r Range) host(n uint16) netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(r), byte(n >> 8), byte(n)})
}

// ErrExhausted says that every address of a range is in use.
var ErrExhausted = errors.New("no address is left")

// Pool hands out the addresses of a range. It is safe for concurrent use.
type Pool struct {
	from Range

	mu   sync.Mutex
	used map[uint16]struct{}
	next uint16
}

// NewPool returns a pool with every address of r free.
func NewPool(r Range) *Pool { return &Pool{from: r, used: map[uint16]struct{}{}, next: firstPod} }

// Allocate returns a free address. One that was released is used again as late as possible.
func (p *Pool) Allocate() (netip.Addr, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range 1 << 16 {
		n := p.next
		p.next++
		if p.next < firstPod {
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

// usable leaves out what looks like a network's own or broadcast address.
func usable(n uint16) bool { return n >= firstPod && byte(n) != 0 && byte(n) != 255 }

// Reserve marks an address as in use, and tells whether it is one of the pool's and was free.
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
		p.next = max(n+1, firstPod) // a sum that wraps to 0 begins again
	}
	return true
}

// Release frees an address. One that is not in use stays free.
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
