package node

import (
	"errors"
	"net/netip"
	"testing"
)

func TestCIDRBlocks(t *testing.T) {
	prefix := netip.MustParsePrefix
	for _, tt := range []struct {
		name    string
		cluster string
		bits    int
		occupy  []string
		want    []string // that allocate returns until no block is left, or the first ones
		full    bool
	}{
		{"in turn", "10.0.0.0/22", 24, nil, []string{"10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"}, true},
		{"one block", "10.0.0.0/24", 24, nil, []string{"10.0.0.0/24"}, true},
		{"the address of a host in the range", "10.0.1.7/22", 23, nil, []string{"10.0.0.0/23", "10.0.2.0/23"}, true},
		{"a node's own", "10.0.0.0/22", 24, []string{"10.0.1.0/24"}, []string{"10.0.0.0/24", "10.0.2.0/24", "10.0.3.0/24"}, true},
		{"smaller than a block", "10.0.0.0/22", 24, []string{"10.0.1.16/28"}, []string{"10.0.0.0/24", "10.0.2.0/24", "10.0.3.0/24"}, true},
		{"larger than a block", "10.0.0.0/22", 24, []string{"10.0.2.0/23"}, []string{"10.0.0.0/24", "10.0.1.0/24"}, true},
		{"larger than the range", "10.0.0.0/22", 24, []string{"10.0.0.0/8"}, nil, true},
		{"IPv6", "fd00:1::/48", 64, []string{"fd00:1:0:1::/64"}, []string{"fd00:1::/64", "fd00:1:0:2::/64"}, false},
		{"IPv6 beyond 64 bits", "fd00:1::/104", 112, nil, []string{"fd00:1::/112", "fd00:1::1:0/112"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newCIDRBlocks(prefix(tt.cluster), tt.bits)
			for _, p := range tt.occupy {
				if err := b.occupy(prefix(p)); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range tt.want {
				if got, err := b.allocate(); err != nil || got.String() != want {
					t.Errorf("allocated %v, %v; want %s", got, err, want)
				}
			}
			if got, err := b.allocate(); errors.Is(err, errNoBlock) != tt.full {
				t.Errorf("at the end: %v, %v", got, err)
			}
		})
	}
}

// TestCIDRBlocksReleased: a released block is allocated after all others, and not before its last holder has released it.
func TestCIDRBlocksReleased(t *testing.T) {
	b := newCIDRBlocks(netip.MustParsePrefix("10.0.0.0/23"), 24)
	first, _ := b.allocate()
	if err := b.occupy(first); err != nil {
		t.Fatal(err)
	}
	b.release(first)
	second, _ := b.allocate()
	if second == first {
		t.Errorf("%s was allocated twice", first)
	}
	if got, err := b.allocate(); err == nil {
		t.Errorf("allocated %s, which has a holder", got)
	}
	b.release(first)
	if got, err := b.allocate(); err != nil || got != first {
		t.Errorf("after the last release: %v, %v", got, err)
	}
	b.release(netip.MustParsePrefix("192.168.0.0/24")) // of no block: no effect
	if err := b.occupy(netip.MustParsePrefix("192.168.0.0/24")); err == nil || err.Error() != "cidr 192.168.0.0/24 is out the range of cluster cidr 10.0.0.0/23" {
		t.Errorf("a range of elsewhere: %v", err)
	}
}
