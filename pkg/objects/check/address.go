package check

import (
	"fmt"
	"net"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// IP checks an address of a field that has always been checked; those that are known may stay, whatever they are.
func IP(address string, known *Seen[string], at *field.Path) field.ErrorList {
	if known.Has(address) {
		return nil
	}
	return utilvalidation.IsValidIPForLegacyField(at, address, true, nil)
}

// CIDR is like IP for a range of addresses.
func CIDR(cidr string, known *Seen[string], at *field.Path) field.ErrorList {
	if known.Has(cidr) {
		return nil
	}
	return utilvalidation.IsValidCIDRForLegacyField(at, cidr, true, nil)
}

// Endpoint checks the address of an endpoint. Pods have loopback addresses here, so the ranges that a cluster of this
// machine may have pass; every other loopback address is refused, as Kubernetes refuses all of them.
func Endpoint(address string, at *field.Path) field.ErrorList {
	ip := netutils.ParseIPSloppy(address)
	if ip == nil {
		return field.ErrorList{field.Invalid(at, address, "must be a valid IP address")}
	}
	var errs field.ErrorList
	if ip.IsUnspecified() {
		errs = append(errs, field.Invalid(at, address, fmt.Sprintf("may not be unspecified (%v)", address)))
	}
	if ip.IsLoopback() && !isPod(ip) {
		errs = append(errs, field.Invalid(at, address, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
	}
	if ip.IsLinkLocalUnicast() {
		errs = append(errs, field.Invalid(at, address, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
	}
	if ip.IsLinkLocalMulticast() {
		errs = append(errs, field.Invalid(at, address, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))
	}
	return errs
}

// The ranges 127.N.0.0/16 that clusters take, the own of which no row can know: a lower N is the machine's and people's.
const (
	firstRange = 2
	lastRange  = 254
)

// isPod reports whether a loopback address can be a pod's.
func isPod(ip net.IP) bool {
	v4 := ip.To4()
	return v4 != nil && firstRange <= v4[1] && v4[1] <= lastRange
}
