package check

import (
	"fmt"
	"net"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// IP checks an IP address. Addresses in known, of the old object, may be invalid.
func IP(address string, known *Seen[string], at *field.Path) field.ErrorList {
	if known.Has(address) {
		return nil
	}
	return utilvalidation.IsValidIPForLegacyField(at, address, true, nil)
}

// CIDR is IP for a CIDR.
func CIDR(cidr string, known *Seen[string], at *field.Path) field.ErrorList {
	if known.Has(cidr) {
		return nil
	}
	return utilvalidation.IsValidCIDRForLegacyField(at, cidr, true, nil)
}

// Endpoint checks the address of an endpoint. Kubernetes rejects all loopback addresses. Here pods have loopback addresses, so the
// ranges that minikctl's clusters use are valid.
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

// The lowest and highest N of the ranges 127.N.0.0/16 that clusters use. Lower ones are used by the machine and its users.
const (
	firstRange = 2
	lastRange  = 254
)

// isPod reports whether a loopback address is in a range for pods.
func isPod(ip net.IP) bool {
	v4 := ip.To4()
	return v4 != nil && firstRange <= v4[1] && v4[1] <= lastRange
}
