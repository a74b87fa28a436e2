package allocate

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/networking"
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
}

func TestCandidates(t *testing.T) {
	for _, tt := range []struct {
		prefix, first string // first with the lowest random number
		count         int
	}{
		{"10.0.0.0/24", "10.0.0.17", 254},
		{"10.0.0.0/16", "10.0.1.1", 65534},
		{"10.0.0.0/28", "10.0.0.1", 14},
		{"10.0.0.0/30", "10.0.0.1", 2},
		{"10.0.0.0/31", "", 0},
		{"10.0.0.0/32", "", 0},
	} {
		p := netip.MustParsePrefix(tt.prefix)
		first, seen := "", map[netip.Addr]bool{}
		for ip := range candidates(p, func(int) int { return 0 }) {
			if first == "" {
				first = ip.String()
			}
			if !networking.RangeHolds(p, ip) || seen[ip] {
				t.Errorf("%s yields %s", p, ip)
			}
			seen[ip] = true
		}
		if len(seen) != tt.count || first != tt.first {
			t.Errorf("%s: got %d from %s", p, len(seen), first)
		}
	}
}

func TestReadyRanges(t *testing.T) {
	named := func(name string, cidrs ...string) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	}
	for _, tt := range []struct {
		name  string
		given []*networkingv1.ServiceCIDR
		want  string
	}{
		{"the default comes first", []*networkingv1.ServiceCIDR{named("a", "10.2.0.0/24"), named("kubernetes", "10.1.0.0/16")}, "[10.1.0.0/16 10.2.0.0/24]"},
		{"only IPv4", []*networkingv1.ServiceCIDR{named("a", "10.2.0.0/24", "fd00::/112")}, "[10.2.0.0/24]"},
		{"shared once", []*networkingv1.ServiceCIDR{named("b", "10.2.0.0/24"), named("a", "10.2.0.0/24")}, "[10.2.0.0/24]"},
		{"an earlier default", []*networkingv1.ServiceCIDR{named("kubernetes", "10.96.0.0/16")}, "[10.1.0.0/16 10.96.0.0/16]"},
		{"none", nil, "[]"},
	} {
		if got := fmt.Sprint(readyRanges(tt.given, netip.MustParsePrefix("10.1.0.0/16"))); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}
