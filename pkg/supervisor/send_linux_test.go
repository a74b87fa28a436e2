//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// controlOf returns a control message with n bytes of data.
func controlOf(level, kind int32, n int) []byte {
	b := make([]byte, unix.CmsgSpace(n))
	h := headerOf(b)
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(n))
	return b
}

// The supervisor sends no control message with a capability that the program may lack.
func TestPrivilegedControl(t *testing.T) {
	ttl, mark := controlOf(unix.IPPROTO_IP, unix.IP_TTL, 4), controlOf(unix.SOL_SOCKET, unix.SO_MARK, 4)
	long := slices.Clone(ttl)
	headerOf(long).SetLen(len(long) + 1)
	for name, tt := range map[string]struct {
		control []byte
		want    error
	}{
		"none":               {},
		"the time to live":   {ttl, nil},
		"a mark":             {mark, unix.EPERM},
		"a mark behind":      {slices.Concat(ttl, mark), unix.EPERM},
		"options of IPv4":    {controlOf(unix.IPPROTO_IP, unix.IP_RETOPTS, 4), unix.EPERM},
		"hop options":        {controlOf(unix.IPPROTO_IPV6, unix.IPV6_HOPOPTS, 8), unix.EPERM},
		"longer than all":    {long, unix.EINVAL},
		"the last unpadded":  {ttl[:unix.CmsgLen(4)], nil},
		"less than a header": {ttl[:unix.SizeofCmsghdr-1], nil},
	} {
		if err := checkPrivileges(tt.control); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// A datagram for a Service on loopback has the pod's source address instead of the program's, and its other control messages.
func TestControlWithoutSource(t *testing.T) {
	ttl := controlOf(unix.IPPROTO_IP, unix.IP_TTL, 4)
	control := slices.Concat(controlOf(unix.IPPROTO_IP, unix.IP_PKTINFO, 12), ttl, controlOf(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, 20), ttl[:unix.CmsgLen(4)])
	rest, err := withoutSource(control)
	if want := slices.Concat(ttl, ttl); err != nil || !slices.Equal(rest, want) {
		t.Errorf("%x, %v, want %x", rest, err, want)
	}
}
