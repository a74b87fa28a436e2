//go:build linux && (amd64 || arm64)

package supervisor

import (
	"net/netip"
	"testing"
)

func FuzzParseIP(f *testing.F) {
	for _, s := range []string{"127.5.1.2", "", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1..2.3", "1.2.3.", "a.b.c.d", "01.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := parseIP(s)
		want, err := netip.ParseAddr(s)
		if err == nil && want.Is4() && (!ok || got.as4() != want.As4()) {
			t.Errorf("parseIP(%q) = %v, %v", s, got, ok)
		}
	})
}

func TestIP(t *testing.T) {
	for _, c := range []struct {
		addr             string
		kind             ipKind
		any, local, same bool
	}{
		{"0.0.0.0", four, true, false, false},
		{"::", six, true, false, false},
		{"::ffff:0.0.0.0", mapped, true, false, false},
		{"127.0.0.1", four, false, true, false},
		{"::1", six, false, true, false},
		{"::ffff:127.0.0.1", mapped, false, true, false},
		{"127.9.1.2", four, false, false, true},
		{"::ffff:127.9.1.2", mapped, false, false, true},
		{"127.9.1.3", four, false, false, false},
		{"2001:db8::1", six, false, false, false},
	} {
		a := netip.MustParseAddr(c.addr)
		x := ipFrom16(a.As16())
		if a.Is4() {
			x = ipFrom4(a.As4())
		}
		own := ipFrom4([4]byte{127, 9, 1, 2})
		if x.kind != c.kind || x.isAny() != c.any || x.isLocalhost() != c.local || x.same(own) != c.same {
			t.Errorf("%s: got %+v, any %v, localhost %v, own %v", c.addr, x, x.isAny(), x.isLocalhost(), x.same(own))
		}
	}
}
