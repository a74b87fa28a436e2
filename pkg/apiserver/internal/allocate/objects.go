package allocate

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/networking"
)

var (
	ipAddresses   = networkingv1.SchemeGroupVersion.WithResource("ipaddresses")
	serviceRanges = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
)

// Objects accesses the ServiceCIDRs that addresses come from and the IPAddresses that reserve them.
type Objects struct {
	Reader func() stage.Reader
	Client func() client.Client // as the API server itself
}

// ranges returns the IPv4 ranges that are ready: those of the ServiceCIDR kubernetes first, then in the order of names. While that
// ServiceCIDR has other ranges than the configured one, which an earlier configuration has stored, the configured one comes first.
func (o *Objects) ranges(ctx context.Context, configured netip.Prefix) ([]netip.Prefix, error) {
	list, err := o.Reader().List(ctx, serviceRanges.GroupResource(), "")
	if err != nil {
		return nil, err
	}
	var all []*networkingv1.ServiceCIDR
	for _, obj := range list {
		if r, ok := obj.(*networkingv1.ServiceCIDR); ok && networking.RangeReady(r) {
			all = append(all, r)
		}
	}
	return readyRanges(all, configured), nil
}

func readyRanges(ready []*networkingv1.ServiceCIDR, configured netip.Prefix) []netip.Prefix {
	ready = slices.Clone(ready)
	order := func(r *networkingv1.ServiceCIDR) int {
		if r.Name == networking.DefaultRange {
			return 0
		}
		return 1
	}
	slices.SortFunc(ready, func(a, b *networkingv1.ServiceCIDR) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.Name, b.Name))
	})
	var out []netip.Prefix
	add := func(p netip.Prefix) {
		if p.Addr().Is4() && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, r := range ready {
		if r.Name == networking.DefaultRange {
			add(configured)
		}
		for _, p := range networking.Prefixes(r) {
			add(p)
		}
	}
	return out
}

// exists reports whether there is an IPAddress of an address.
func (o *Objects) exists(ctx context.Context, ip netip.Addr) (bool, error) {
	_, err := o.Reader().Get(ctx, ipAddresses.GroupResource(), objects.Key{Name: ip.String()})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// create creates the IPAddress of a Service, or returns errTaken.
func (o *Objects) create(ctx context.Context, ip netip.Addr, svc *corev1.Service) error {
	_, err := o.Client().Create(ctx, client.Target{Resource: ipAddresses}, networking.ServiceAddress(ip.String(), svc), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return errTaken
	}
	return err
}

// remove deletes the IPAddress of a Service. One of another parent stays.
func (o *Objects) remove(ctx context.Context, ip netip.Addr, svc *corev1.Service) error {
	key := objects.Key{Name: ip.String()}
	obj, err := o.Reader().Get(ctx, ipAddresses.GroupResource(), key)
	if err != nil {
		return ignoreGone(err)
	}
	a, ok := obj.(*networkingv1.IPAddress)
	if !ok || a.Spec.ParentRef == nil || *a.Spec.ParentRef != *networking.ServiceAddress(a.Name, svc).Spec.ParentRef {
		return nil
	}
	_, err = o.Client().Delete(ctx, client.In(ipAddresses, key), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(a.UID))})
	return ignoreGone(err)
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
