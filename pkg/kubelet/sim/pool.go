package sim

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// pool allocates the addresses of a range in order.
type pool struct {
	base, size uint32
	used       map[uint32]struct{}
	next       uint32
}

// These are the bounds of the addresses of pods on nodes without a podCIDR, 10.244.0.0 to 10.255.255.255: a simulated cluster may have
// more pods than 10.244.0.0/16 has addresses.
const (
	defaultBase uint32 = 10<<24 | 244<<16
	defaultSize uint32 = 12 << 16
)

var errExhausted = errors.New("no address is left")

func newPool(base, size uint32) *pool {
	return &pool{base: base, size: size, used: map[uint32]struct{}{}, next: 1}
}

// poolOf returns the pool of a podCIDR. It is the default pool for "" and for what is no range of IPv4 with room for pods: simulated
// pods have addresses of IPv4.
func (c *Cluster) poolOf(podCIDR string) *pool {
	p, err := netip.ParsePrefix(podCIDR)
	const smallest = 30
	if err != nil || !p.Addr().Is4() || p.Bits() > smallest || p.Bits() == 0 {
		return c.pool
	}
	p = p.Masked()
	if c.pools[p] == nil {
		c.pools[p] = newPool(binary.BigEndian.Uint32(p.Addr().AsSlice()), 1<<(32-p.Bits())) // the last address is that of broadcasts
	}
	return c.pools[p]
}

func (p *pool) allocate() (netip.Addr, error) {
	for range p.size {
		n := p.next
		if p.next++; p.next == p.size {
			p.next = 1
		}
		a := p.base + n
		if last := byte(a); last == 0 || last == 255 || n == p.size-1 {
			continue
		}
		if _, taken := p.used[n]; taken {
			continue
		}
		p.used[n] = struct{}{}
		return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}), nil
	}
	return netip.Addr{}, errExhausted
}

// release frees an address. The zero address is not in the pool.
func (p *pool) release(a netip.Addr) {
	if a.IsValid() {
		delete(p.used, binary.BigEndian.Uint32(a.AsSlice())-p.base)
	}
}

// Reserve returns the address of a pod that no node starts, the same one until Release.
func (c *Cluster) Reserve(pod types.UID) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.reserved[pod]; ok {
		return a.String(), nil
	}
	a, err := c.pool.allocate()
	if err != nil {
		return "", err
	}
	c.reserved[pod] = a
	return a.String(), nil
}

// Release frees the address that Reserve has returned for a pod. Idempotent.
func (c *Cluster) Release(pod types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pool.release(c.reserved[pod])
	delete(c.reserved, pod)
}
