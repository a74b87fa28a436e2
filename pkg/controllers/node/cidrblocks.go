package node

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
)

// errNoBlock means that a cluster CIDR has no free block.
var errNoBlock = errors.New("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range")

// cidrBlocks divides a cluster CIDR into blocks of one size, numbered from 0, and allocates them in turn, so that a released block is
// allocated again as late as possible. It counts the holders of a block: nodes whose podCIDRs a client has set may overlap.
// It is not safe for concurrent use.
type cidrBlocks struct {
	cluster netip.Prefix
	bits    int            // of a block
	holders map[uint64]int // by block; blocks without holders are absent
	next    uint64         // where the search for a free block begins
}

func newCIDRBlocks(cluster netip.Prefix, bits int) *cidrBlocks {
	return &cidrBlocks{cluster: cluster.Masked(), bits: bits, holders: map[uint64]int{}}
}

func (b *cidrBlocks) size() uint64 { return 1 << (b.bits - b.cluster.Bits()) }

// allocate returns a free block, or errNoBlock.
func (b *cidrBlocks) allocate() (netip.Prefix, error) {
	size := b.size()
	if uint64(len(b.holders)) >= size {
		return netip.Prefix{}, errNoBlock
	}
	n := b.next
	for b.holders[n] > 0 {
		n = (n + 1) % size
	}
	b.next = (n + 1) % size
	b.holders[n]++
	return b.block(n), nil
}

// occupy adds a holder to the blocks that a prefix overlaps. A prefix may be smaller or larger than a block.
func (b *cidrBlocks) occupy(p netip.Prefix) error {
	first, last, err := b.overlapped(p)
	if err != nil {
		return err
	}
	for n := first; n <= last; n++ {
		b.holders[n]++
	}
	return nil
}

// release undoes one occupy, or one allocate, of the prefix.
func (b *cidrBlocks) release(p netip.Prefix) {
	first, last, err := b.overlapped(p)
	if err != nil {
		return // it was never occupied
	}
	for n := first; n <= last; n++ {
		if b.holders[n]--; b.holders[n] <= 0 {
			delete(b.holders, n)
		}
	}
}

// overlapped returns the first and the last block that a prefix overlaps.
func (b *cidrBlocks) overlapped(p netip.Prefix) (first, last uint64, err error) {
	p = p.Masked()
	if !p.Overlaps(b.cluster) {
		return 0, 0, fmt.Errorf("cidr %s is out the range of cluster cidr %s", p, b.cluster)
	}
	if p.Bits() <= b.cluster.Bits() {
		return 0, b.size() - 1, nil
	}
	first = b.numberOf(p.Addr())
	if p.Bits() >= b.bits {
		return first, first, nil
	}
	return first, first + 1<<(b.bits-p.Bits()) - 1, nil
}

// block returns the block of a number.
func (b *cidrBlocks) block(n uint64) netip.Prefix {
	length := b.cluster.Addr().BitLen()
	at := new(big.Int).SetBytes(b.cluster.Addr().AsSlice())
	at.Add(at, new(big.Int).Lsh(new(big.Int).SetUint64(n), uint(length-b.bits)))
	a, _ := netip.AddrFromSlice(at.FillBytes(make([]byte, length/8)))
	return netip.PrefixFrom(a, b.bits)
}

// numberOf returns the block of an address of the cluster CIDR.
func (b *cidrBlocks) numberOf(a netip.Addr) uint64 {
	at := new(big.Int).SetBytes(a.AsSlice())
	at.Sub(at, new(big.Int).SetBytes(b.cluster.Addr().AsSlice()))
	return at.Rsh(at, uint(a.BitLen()-b.bits)).Uint64()
}
