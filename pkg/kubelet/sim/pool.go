package sim

import (
	"errors"
	"net/netip"

	"k8s.io/apimachinery/pkg/types"
)

// pool allocates the addresses from 10.244.0.0 to 10.255.255.255 in order: a simulated cluster may have more pods than
// 10.244.0.0/16 has addresses.
type pool struct {
	used map[uint32]struct{}
	next uint32
}

const (
	base uint32 = 10<<24 | 244<<16
	size uint32 = 12 << 16
)

var errExhausted = errors.New("no address is left")

func (p *pool) allocate() (netip.Addr, error) {
	if p.used == nil {
		p.used, p.next = map[uint32]struct{}{}, 1
	}
	for range size {
		n := p.next
		if p.next++; p.next == size {
			p.next = 1
		}
		if last := byte(n); last == 0 || last == 255 {
			continue
		}
		if _, taken := p.used[n]; taken {
			continue
		}
		p.used[n] = struct{}{}
		a := base + n
		return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}), nil
	}
	return netip.Addr{}, errExhausted
}

// release frees an address. The zero address is not in the pool.
func (p *pool) release(a netip.Addr) {
	if !a.IsValid() {
		return
	}
	b := a.As4()
	delete(p.used, (uint32(b[0])<<24|uint32(b[1])<<16|uint32(b[2])<<8|uint32(b[3]))-base)
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
