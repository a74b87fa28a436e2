package ingress

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// slicesOf lists EndpointSlices by the key of their Service.
var slicesOf = client.NewIndex(func(s *discoveryv1.EndpointSlice) []string {
	if name := s.Labels[discoveryv1.LabelServiceName]; name != "" {
		return []string{s.Namespace + "/" + name}
	}
	return nil
})

var (
	errNoService   = errors.New("the service does not exist")
	errNoPort      = errors.New("the service has no such port")
	errNoEndpoints = errors.New("the service has no ready endpoints")
)

// endpoints returns where a backend's Service is served: the addresses of its ready endpoints, or its external name.
func (i *Ingress) endpoints(b *backend) ([]string, error) {
	svc, ok := i.services.Get(b.service)
	if !ok {
		return nil, errNoService
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		port := b.port.Number
		if port == 0 {
			return nil, errNoPort
		}
		return []string{net.JoinHostPort(svc.Spec.ExternalName, strconv.Itoa(int(port)))}, nil
	}
	n := slices.IndexFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.Protocol == corev1.ProtocolTCP && (b.port.Name != "" && p.Name == b.port.Name || b.port.Name == "" && p.Port == b.port.Number)
	})
	if n < 0 {
		return nil, errNoPort
	}
	out := endpointsOf(i.slices.ByIndex(slicesOf, svc.Namespace+"/"+svc.Name), svc.Spec.Ports[n].Name)
	if len(out) == 0 {
		return nil, errNoEndpoints
	}
	return out, nil
}

// endpointsOf returns the addresses of the ready endpoints for the port of a name, sorted and without duplicates.
func endpointsOf(all []*discoveryv1.EndpointSlice, port string) []string {
	var out []string
	for _, s := range all {
		for _, p := range s.Ports {
			if p.Port == nil || (p.Name == nil && port != "") || p.Name != nil && *p.Name != port || p.Protocol != nil && *p.Protocol != corev1.ProtocolTCP {
				continue
			}
			for _, e := range s.Endpoints {
				if len(e.Addresses) == 0 || e.Conditions.Ready != nil && !*e.Conditions.Ready {
					continue
				}
				if ip, err := netip.ParseAddr(e.Addresses[0]); err == nil {
					out = append(out, netip.AddrPortFrom(ip, uint16(*p.Port)).String())
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
