package dns

import (
	"net/netip"
	"strconv"

	"github.com/miekg/dns"
)

// MachineResolvers returns the servers of a resolv.conf, without those in except; none if the file can't be read.
func MachineResolvers(path string, except netip.Prefix) []netip.AddrPort {
	conf, err := dns.ClientConfigFromFile(path)
	if err != nil {
		return nil
	}
	port, err := strconv.ParseUint(conf.Port, 10, 16)
	if err != nil {
		return nil
	}
	var out []netip.AddrPort
	for _, s := range conf.Servers {
		if ip, err := netip.ParseAddr(s); err == nil && !except.Contains(ip) {
			out = append(out, netip.AddrPortFrom(ip, uint16(port)))
		}
	}
	return out
}
