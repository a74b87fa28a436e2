package networking

import (
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// IPAddresses is the row of IPAddress, an allocated address. Its name is the address.
var IPAddresses = objects.Def[*networkingv1.IPAddress]{
	Names:     objects.Names{Group: group, Version: version, Kind: "IPAddress", Plural: "ipaddresses", Singular: "ipaddress", Short: []string{"ip"}, Cluster: true},
	New:       func() *networkingv1.IPAddress { return &networkingv1.IPAddress{} },
	NewList:   func() runtime.Object { return &networkingv1.IPAddressList{} },
	ValidName: addressName,
	Validate:  validateAddress,
	Columns: []objects.Column[*networkingv1.IPAddress]{
		objects.NameColumn[*networkingv1.IPAddress](),
		{Name: "ParentRef", Description: networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"],
			Cell: func(a *networkingv1.IPAddress, _ time.Time) any { return parent(a.Spec.ParentRef) }},
	},
}

func parent(p *networkingv1.ParentReference) string {
	if p == nil {
		return none
	}
	out := strings.ToLower(schema.GroupResource{Group: p.Group, Resource: p.Resource}.String())
	if p.Namespace != "" {
		out += "/" + p.Namespace
	}
	return out + "/" + p.Name
}

func addressName(name string, _ bool) []string {
	var out []string
	for _, err := range utilvalidation.IsValidIP(&field.Path{}, name) {
		out = append(out, err.Detail)
	}
	return out
}

func validateAddress(a, old *networkingv1.IPAddress) field.ErrorList {
	at := field.NewPath("spec", "parentRef")
	errs := append(check.Meta(a, false, addressName), parentCheck(a.Spec.ParentRef, at)...)
	if old != nil {
		errs = append(append(errs, check.MetaUpdate(a, old)...), check.ImmutableShown(a.Spec.ParentRef, old.Spec.ParentRef, at)...)
	}
	return errs
}

func parentCheck(p *networkingv1.ParentReference, at *field.Path) field.ErrorList {
	if p == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if p.Group != "" {
		errs = append(errs, check.Subdomain(p.Group, at, "group")...)
	}
	errs = append(append(errs, segment(p.Resource, at.Child("resource"))...), segment(p.Name, at.Child("name"))...)
	if p.Namespace != "" {
		errs = append(errs, check.Invalid(at.Child("namespace"), p.Namespace, content.IsPathSegmentName(p.Namespace))...)
	}
	return errs
}

// ServiceCIDRs is the row of ServiceCIDR: ranges of the addresses of Services.
var ServiceCIDRs = objects.Def[*networkingv1.ServiceCIDR]{
	Names:         objects.Names{Group: group, Version: version, Kind: "ServiceCIDR", Plural: "servicecidrs", Cluster: true},
	ApplyPriority: 15,
	New:           func() *networkingv1.ServiceCIDR { return &networkingv1.ServiceCIDR{} },
	NewList:       func() runtime.Object { return &networkingv1.ServiceCIDRList{} },
	Prepare:       prepareCIDR,
	Validate:      validateCIDR,
	Columns: []objects.Column[*networkingv1.ServiceCIDR]{
		objects.NameColumn[*networkingv1.ServiceCIDR](),
		{Name: "CIDRs", Description: networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"],
			Cell: func(c *networkingv1.ServiceCIDR, _ time.Time) any { return strings.Join(c.Spec.CIDRs, ",") }},
		objects.AgeColumn[*networkingv1.ServiceCIDR](),
	},
	Reset: []string{"status"},
	Status: &objects.Status[*networkingv1.ServiceCIDR]{
		Prepare: func(c, old *networkingv1.ServiceCIDR) {
			c.Spec = old.Spec
			metav1.ResetObjectMetaForStatus(c, old)
		},
		Validate: func(c, old *networkingv1.ServiceCIDR) field.ErrorList { return check.MetaUpdate(c, old) },
		Reset:    []string{"metadata", "spec"},
	},
}

func prepareCIDR(c, old *networkingv1.ServiceCIDR) {
	if old == nil {
		c.Status = networkingv1.ServiceCIDRStatus{}
		return
	}
	c.Status = old.Status
}

func validateCIDR(c, old *networkingv1.ServiceCIDR) field.ErrorList {
	at := field.NewPath("spec", "cidrs")
	if old == nil {
		return append(check.Meta(c, false, validation.NameIsDNSSubdomain), cidrs(&c.Spec, at)...)
	}
	errs := check.MetaUpdate(c, old)
	now, was := c.Spec.CIDRs, old.Spec.CIDRs
	second := len(was) == 1 && len(now) == 2 // a second family may be added
	if len(now) != len(was) && !second {
		return append(errs, field.Invalid(at, now, validation.FieldImmutableErrorMsg))
	}
	for i := range was {
		if now[i] != was[i] {
			errs = append(errs, field.Invalid(at.Index(i), now[i], validation.FieldImmutableErrorMsg))
		}
	}
	if second {
		errs = append(errs, cidrs(&c.Spec, at)...)
	}
	return errs
}

func cidrs(s *networkingv1.ServiceCIDRSpec, at *field.Path) field.ErrorList {
	switch {
	case len(s.CIDRs) == 0:
		return field.ErrorList{field.Required(at, "at least one CIDR required")}
	case len(s.CIDRs) > 2:
		return field.ErrorList{field.Invalid(at, check.Shown(s), "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	for i, cidr := range s.CIDRs {
		errs = append(errs, utilvalidation.IsValidCIDR(at.Index(i), cidr)...)
	}
	if len(s.CIDRs) == 2 {
		family := netutils.IPFamilyOfCIDRString(s.CIDRs[0])
		if family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(s.CIDRs[1]) {
			errs = append(errs, field.Invalid(at, s.CIDRs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
		}
	}
	return errs
}
