package core

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
	"github.com/minikctl/minikctl/pkg/objects/podspec"
)

// Endpoints is the row of Endpoints, the predecessor of EndpointSlices.
var Endpoints = objects.Def[*corev1.Endpoints]{
	Names:   objects.Names{Version: "v1", Kind: "Endpoints", Plural: "endpoints", Short: []string{"ep"}},
	New:     func() *corev1.Endpoints { return &corev1.Endpoints{} },
	NewList: func() runtime.Object { return &corev1.EndpointsList{} },
	Default: func(e *corev1.Endpoints) {
		for i := range e.Subsets {
			for j := range e.Subsets[i].Ports {
				if p := &e.Subsets[i].Ports[j]; p.Protocol == "" {
					p.Protocol = corev1.ProtocolTCP
				}
			}
		}
	},
	Validate:       validateEndpoints,
	CreateOnUpdate: true,
	Warnings:       endpointsWarnings,
	Deprecated:     "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
	Columns: []objects.Column[*corev1.Endpoints]{
		objects.NameColumn[*corev1.Endpoints](),
		{Name: "Endpoints", Description: corev1.Endpoints{}.SwaggerDoc()["subsets"],
			Cell: func(e *corev1.Endpoints, _ time.Time) any { return endpointList(e) }},
		objects.AgeColumn[*corev1.Endpoints](),
	},
}

// shownEndpoints is the number of endpoints that a table lists.
const shownEndpoints = 3

func endpointList(e *corev1.Endpoints) string {
	if len(e.Subsets) == 0 {
		return "<none>"
	}
	var out []string
	count := 0
	add := func(s string) {
		if count++; len(out) < shownEndpoints {
			out = append(out, s)
		}
	}
	for _, s := range e.Subsets {
		for _, a := range s.Addresses {
			if len(s.Ports) == 0 {
				add(a.IP)
			}
		}
		for _, p := range s.Ports {
			for _, a := range s.Addresses {
				add(net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	if count > shownEndpoints {
		return fmt.Sprintf("%s + %d more...", strings.Join(out, ","), count-shownEndpoints)
	}
	return strings.Join(out, ",")
}

func validateEndpoints(e, old *corev1.Endpoints) field.ErrorList {
	var errs field.ErrorList
	var known *check.Seen[string] // addresses of the old object, which may be invalid
	if old != nil {
		errs, known = check.MetaUpdate(e, old), endpointIPs(old)
	}
	errs = append(errs, check.Meta(e, true, apivalidation.NameIsDNSSubdomain)...)
	if old != nil && equality.Semantic.DeepEqual(e.Subsets, old.Subsets) {
		return errs
	}
	for i := range e.Subsets {
		s, at := &e.Subsets[i], field.NewPath("subsets").Index(i)
		if len(s.Addresses) == 0 && len(s.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j := range s.Addresses {
			errs = append(errs, endpointAddress(&s.Addresses[j], known, at.Child("addresses").Index(j))...)
		}
		for j := range s.NotReadyAddresses {
			errs = append(errs, endpointAddress(&s.NotReadyAddresses[j], known, at.Child("notReadyAddresses").Index(j))...)
		}
		for j := range s.Ports {
			errs = append(errs, endpointPort(&s.Ports[j], len(s.Ports) > 1, at.Child("ports").Index(j))...)
		}
	}
	return errs
}

func endpointIPs(e *corev1.Endpoints) *check.Seen[string] {
	out := &check.Seen[string]{}
	for i := range e.Subsets {
		for _, list := range [][]corev1.EndpointAddress{e.Subsets[i].Addresses, e.Subsets[i].NotReadyAddresses} {
			for j := range list {
				out.Again(list[j].IP)
			}
		}
	}
	return out
}

func endpointAddress(a *corev1.EndpointAddress, known *check.Seen[string], at *field.Path) field.ErrorList {
	errs := check.IP(a.IP, known, at.Child("ip"))
	if a.Hostname != "" {
		errs = append(errs, check.Label(a.Hostname, at, "hostname")...)
	}
	if a.NodeName != nil {
		errs = append(errs, check.Subdomain(*a.NodeName, at, "nodeName")...)
	}
	return append(errs, check.Endpoint(a.IP, at.Child("ip"))...)
}

func endpointPort(p *corev1.EndpointPort, named bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Name != "" {
		errs = append(errs, check.Label(p.Name, at, "name")...)
	} else if named {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	errs = append(errs, check.PortNumber(p.Port, at, "port")...)
	errs = append(errs, check.Named(p.Protocol, podspec.Protocols, at, "protocol")...)
	if p.AppProtocol != nil {
		errs = append(errs, check.Qualified(*p.AppProtocol, at, "appProtocol")...)
	}
	return errs
}

// endpointsWarnings warns about ambiguous addresses, except in the controller's objects, which have none.
func endpointsWarnings(e, _ *corev1.Endpoints) []string {
	if e.Labels["endpoints.kubernetes.io/managed-by"] == "endpoint-controller" {
		return nil
	}
	var out []string
	for i, s := range e.Subsets {
		at := field.NewPath("subsets").Index(i)
		for j, a := range s.Addresses {
			out = append(out, utilvalidation.GetWarningsForIP(at.Child("addresses").Index(j).Child("ip"), a.IP)...)
		}
		for j, a := range s.NotReadyAddresses {
			out = append(out, utilvalidation.GetWarningsForIP(at.Child("notReadyAddresses").Index(j).Child("ip"), a.IP)...)
		}
	}
	return out
}
