// Package discovery holds the row of the group discovery.k8s.io.
package discovery

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

var doc = discoveryv1.EndpointSlice{}.SwaggerDoc()

// EndpointSlices is the row of EndpointSlice.
var EndpointSlices = objects.Def[*discoveryv1.EndpointSlice]{
	Names:    objects.Names{Group: discoveryv1.GroupName, Version: "v1", Kind: "EndpointSlice", Plural: "endpointslices"},
	Versions: oldEndpointSlices,
	New:      func() *discoveryv1.EndpointSlice { return &discoveryv1.EndpointSlice{} },
	NewList:  func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
	Default:  defaultSlice,
	Prepare:  prepareSlice,
	Validate: validateSlice,
	Warnings: sliceWarnings,
	Columns: []objects.Column[*discoveryv1.EndpointSlice]{
		objects.NameColumn[*discoveryv1.EndpointSlice](),
		{Name: "AddressType", Description: doc["addressType"], Cell: func(s *discoveryv1.EndpointSlice, _ time.Time) any { return string(s.AddressType) }},
		{Name: "Ports", Description: doc["ports"], Cell: func(s *discoveryv1.EndpointSlice, _ time.Time) any { return shownPorts(s.Ports) }},
		{Name: "Endpoints", Description: doc["endpoints"], Cell: func(s *discoveryv1.EndpointSlice, _ time.Time) any {
			var all []string
			for _, e := range s.Endpoints {
				all = append(all, e.Addresses...)
			}
			return someOf(all)
		}},
		objects.AgeColumn[*discoveryv1.EndpointSlice](),
	},
}

func shownPorts(ports []discoveryv1.EndpointPort) string {
	var all []string
	for _, p := range ports {
		switch {
		case p.Port != nil:
			all = append(all, strconv.Itoa(int(*p.Port)))
		case p.Name != nil:
			all = append(all, *p.Name)
		default:
			all = append(all, "*")
		}
	}
	return someOf(all)
}

// listed is the number of addresses or ports that a table shows.
const listed = 3

func someOf(all []string) string {
	text := strings.Join(all[:min(listed, len(all))], ",")
	if more := len(all) - listed; more > 0 {
		return fmt.Sprintf("%s + %d more...", text, more)
	}
	if text == "" {
		return "<unset>"
	}
	return text
}

func defaultSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name == nil {
			p.Name = new("")
		}
		if p.Protocol == nil {
			p.Protocol = new(corev1.ProtocolTCP)
		}
	}
}

func prepareSlice(s, old *discoveryv1.EndpointSlice) {
	if old == nil {
		s.Generation = 1
	} else {
		check.Generation(s, old, func() bool {
			return !equality.Semantic.DeepEqual([]any{s.AddressType, s.Endpoints, s.Ports, s.Labels}, []any{old.AddressType, old.Endpoints, old.Ports, old.Labels})
		})
		if equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
			return
		}
	}
	for i := range s.Endpoints {
		s.Endpoints[i].DeprecatedTopology = nil // only for v1beta1
	}
}

// The limits of a slice.
const (
	mostEndpoints = 1000
	mostAddresses = 100
	mostPorts     = 20000
	mostHints     = 8
)

var addressTypes = []discoveryv1.AddressType{discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}

func validateSlice(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := append(check.Meta(s, true, validation.NameIsDNSSubdomain), check.Named(s.AddressType, addressTypes, field.NewPath("addressType"))...)
	errs = append(errs, ports(s.Ports, field.NewPath("ports"))...)
	if old == nil || !equality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
		errs = append(errs, endpoints(s.Endpoints, s.AddressType, field.NewPath("endpoints"))...)
	}
	if old != nil { // the metadata was checked before, for all kinds
		errs = append(errs, check.Immutable(s.AddressType, old.AddressType, field.NewPath("addressType"))...)
	}
	return errs
}

func ports(list []discoveryv1.EndpointPort, at *field.Path) field.ErrorList {
	if len(list) > mostPorts {
		return field.ErrorList{field.TooMany(at, len(list), mostPorts)}
	}
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range list {
		p, idx := &list[i], at.Index(i)
		name := ""
		if p.Name != nil {
			name = *p.Name
		}
		if name != "" {
			errs = append(errs, check.Label(name, idx, "name")...)
		}
		if names[name] {
			errs = append(errs, field.Duplicate(idx.Child("name"), p.Name))
		}
		names[name] = true
		if p.Protocol == nil {
			errs = append(errs, field.Required(idx.Child("protocol"), ""))
		} else {
			errs = append(errs, check.OneOf(*p.Protocol, podspec.Protocols, idx, "protocol")...)
		}
		if p.AppProtocol != nil {
			errs = append(errs, check.Qualified(*p.AppProtocol, idx, "appProtocol")...)
		}
	}
	return errs
}

func endpoints(list []discoveryv1.Endpoint, kind discoveryv1.AddressType, at *field.Path) field.ErrorList {
	if len(list) > mostEndpoints {
		return field.ErrorList{field.TooMany(at, len(list), mostEndpoints)}
	}
	var errs field.ErrorList
	for i := range list {
		e, idx := &list[i], at.Index(i)
		in := idx.Child("addresses")
		switch {
		case len(e.Addresses) == 0:
			errs = append(errs, field.Required(in, "must contain at least 1 address"))
		case len(e.Addresses) > mostAddresses:
			errs = append(errs, field.TooMany(in, len(e.Addresses), mostAddresses))
		}
		for j, a := range e.Addresses {
			errs = append(errs, address(a, kind, in, in.Index(j))...)
		}
		if e.NodeName != nil {
			errs = append(errs, check.Subdomain(*e.NodeName, idx, "nodeName")...)
		}
		if e.Hostname != nil {
			errs = append(errs, check.Label(*e.Hostname, idx, "hostname")...)
		}
		if e.Hints != nil {
			errs = append(errs, hints(e.Hints, idx.Child("hints"))...)
		}
	}
	return errs
}

func address(a string, kind discoveryv1.AddressType, all, at *field.Path) field.ErrorList {
	switch kind {
	case discoveryv1.AddressTypeIPv4:
		if errs := utilvalidation.IsValidIPForLegacyField(at, a, true, nil); len(errs) > 0 {
			return errs
		}
		errs := check.Endpoint(a, at)
		if !netutils.IsIPv4String(a) {
			errs = append(field.ErrorList{field.Invalid(all, a, "must be an IPv4 address")}, errs...)
		}
		return errs
	case discoveryv1.AddressTypeIPv6:
		if errs := utilvalidation.IsValidIP(at, a); len(errs) > 0 {
			return errs
		}
		errs := check.Endpoint(a, at)
		if !netutils.IsIPv6String(a) {
			errs = append(field.ErrorList{field.Invalid(all, a, "must be an IPv6 address")}, errs...)
		}
		return errs
	case discoveryv1.AddressTypeFQDN:
		return utilvalidation.IsFullyQualifiedDomainName(at, a)
	}
	return nil
}

func hints(h *discoveryv1.EndpointHints, at *field.Path) field.ErrorList {
	zones, nodes := at.Child("forZones"), at.Child("forNodes")
	if len(h.ForZones) > mostHints {
		return field.ErrorList{field.TooMany(zones, len(h.ForZones), mostHints)}
	}
	var errs field.ErrorList
	for i, z := range h.ForZones {
		name := zones.Index(i).Child("name")
		if slices.Contains(h.ForZones[:i], z) {
			errs = append(errs, field.Duplicate(name, z.Name))
		}
		errs = append(errs, check.LabelValue(z.Name, name)...)
	}
	if len(h.ForNodes) > mostHints {
		return append(errs, field.TooMany(nodes, len(h.ForNodes), mostHints))
	}
	for i, n := range h.ForNodes {
		name := nodes.Index(i).Child("name")
		if slices.Contains(h.ForNodes[:i], n) {
			errs = append(errs, field.Duplicate(name, n.Name))
		}
		errs = append(errs, check.Subdomain(n.Name, name)...)
	}
	return errs
}

// controllers are the managers of slices whose addresses need no check.
var controllers = []string{"endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"}

func sliceWarnings(s, old *discoveryv1.EndpointSlice) []string {
	var out []string
	if old == nil && s.AddressType == discoveryv1.AddressTypeFQDN {
		out = append(out, "spec.addressType: FQDN endpoints are deprecated")
	}
	if slices.Contains(controllers, s.Labels[discoveryv1.LabelManagedBy]) {
		return out
	}
	for i, e := range s.Endpoints {
		for j, a := range e.Addresses {
			out = append(out, utilvalidation.GetWarningsForIP(field.NewPath("endpoints").Index(i).Child("addresses").Index(j), a)...)
		}
	}
	return out
}
