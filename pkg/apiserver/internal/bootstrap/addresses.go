package bootstrap

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/networking"
	"github.com/minikctl/minikctl/pkg/store"
)

var (
	ipAddresses   = networkingv1.SchemeGroupVersion.WithResource("ipaddresses")
	serviceRanges = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
)

// addressDelay is how long the IPAddresses may be behind the Services: one run serves many writes of Services.
const addressDelay = 100 * time.Millisecond

// ServiceAddress returns the cluster address of the Service kubernetes: the first of the range.
func ServiceAddress(services netip.Prefix) string { return services.Masked().Addr().Next().String() }

// ipAddresses returns an IPAddress for each address that a Service has of a ServiceCIDR.
func (b *Bootstrap) ipAddresses(ctx context.Context) ([]virtual, error) {
	services, err := b.entries(ctx, client.Services.GroupResource())
	if err != nil {
		return nil, err
	}
	stored, err := b.entries(ctx, serviceRanges.GroupResource())
	if err != nil {
		return nil, err
	}
	ranges := append(rangesOf(stored), b.newServiceRange())
	var out []virtual
	for _, obj := range services {
		svc, ok := obj.(*corev1.Service)
		if !ok {
			continue
		}
		for _, ip := range addressesOf(svc) {
			if len(networking.RangesWith(ranges, ip)) > 0 {
				out = append(out, virtual{object: networking.ServiceAddress(ip.String(), svc)})
			}
		}
	}
	return out, nil
}

// entries returns the objects of a resource in the store, with its defaults.
func (b *Bootstrap) entries(ctx context.Context, gr schema.GroupResource) ([]objects.Object, error) {
	row := b.rows[gr]
	if row == nil {
		return nil, nil
	}
	page, err := b.store.List(ctx, cache.Prefix(gr), store.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []objects.Object
	for _, e := range page.Entries {
		if obj, err := cache.Decode(row, e.Value); err == nil { // the cache reports what cannot be decoded
			out = append(out, obj)
		}
	}
	return out, nil
}

// rangesOf returns the ServiceCIDRs of a list.
func rangesOf(list []objects.Object) []*networkingv1.ServiceCIDR {
	var out []*networkingv1.ServiceCIDR
	for _, obj := range list {
		if r, ok := obj.(*networkingv1.ServiceCIDR); ok {
			out = append(out, r)
		}
	}
	return out
}

// addressesOf returns the cluster addresses of a Service.
func addressesOf(svc *corev1.Service) []netip.Addr {
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var out []netip.Addr
	for _, text := range svc.Spec.ClusterIPs {
		if ip, err := netip.ParseAddr(text); err == nil {
			out = append(out, ip)
		}
	}
	return out
}
