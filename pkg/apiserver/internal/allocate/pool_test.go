package allocate

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/minikctl/minikctl/pkg/clock"
)

func TestPool(t *testing.T) {
	p := newPool(100, 16, 256, clock.NewSource(1))
	if p.static != 16 {
		t.Fatalf("static band of %d", p.static)
	}
	if err := p.take(50); err != nil {
		t.Fatal(err)
	}
	if err := p.take(50); !errors.Is(err, errTaken) {
		t.Errorf("taken twice: %v", err)
	}
	for i := range 99 {
		n, err := p.next()
		if err != nil {
			t.Fatalf("number %d: %v", i, err)
		}
		if static := n < p.static; static != (i >= 83) {
			t.Errorf("number %d is %d: the static band comes last", i, n)
		}
	}
	if _, err := p.next(); !errors.Is(err, errFull) {
		t.Errorf("from a full pool: %v", err)
	}
	p.free(7)
	if n, err := p.next(); err != nil || n != 7 {
		t.Errorf("the freed number: %d %v", n, err)
	}
}

func TestRanges(t *testing.T) {
	for text, ok := range map[string]bool{"10.96.0.0/16": true, "10.0.0.0/8": true, "10.0.0.0/30": true, "10.0.0.0/31": false, "fd00::/108": false} {
		_, err := Services(Config{Addresses: netip.MustParsePrefix(text)}, clock.NewSource(1))
		if (err == nil) != ok {
			t.Errorf("range %s: %v", text, err)
		}
	}
	if _, err := Services(Config{FirstPort: 5, LastPort: 4}, clock.NewSource(1)); err == nil {
		t.Error("a range of ports from 5 to 4 was taken")
	}
	s := &services{config: Config{Addresses: netip.MustParsePrefix("10.0.0.0/30")}, base: number(netip.MustParseAddr("10.0.0.1")), addresses: newPool(2, 16, 256, nil)}
	for ip, want := range map[string]int{"10.0.0.1": 0, "10.0.0.2": 1, "10.0.0.0": -1, "10.0.0.3": -1, "10.0.0.4": -1, "x": -1} {
		n, err := s.numberOf(ip)
		if (err == nil) != (want >= 0) || err == nil && n != want {
			t.Errorf("%s has number %d, %v", ip, n, err)
		}
	}
}
