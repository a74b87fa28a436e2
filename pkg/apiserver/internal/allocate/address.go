package allocate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects/networking"
)

// addresses are the cluster addresses that Services have. It is safe for concurrent use.
type addresses struct {
	configured netip.Prefix
	objects    *Objects // nil: no IPAddresses are kept, and all addresses come from the configured range
	source     *clock.Source

	mu    sync.Mutex
	taken map[netip.Addr]struct{}
}

func (s *addresses) ranges(ctx context.Context) ([]netip.Prefix, error) {
	if s.objects == nil {
		return []netip.Prefix{s.configured}, nil
	}
	return s.objects.ranges(ctx, s.configured)
}

// mark takes an address in memory, or returns errTaken.
func (s *addresses) mark(ip netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.taken[ip]; ok {
		return errTaken
	}
	s.taken[ip] = struct{}{}
	return nil
}

func (s *addresses) unmark(ip netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, ip)
}

// take allocates an address, or returns errTaken. A dry run creates no IPAddress.
func (s *addresses) take(ctx context.Context, ip netip.Addr, svc *corev1.Service, dry bool) error {
	if err := s.mark(ip); err != nil || s.objects == nil {
		return err
	}
	taken, err := s.objects.exists(ctx, ip)
	switch {
	case err != nil:
	case taken:
		err = errTaken
	case !dry:
		err = s.objects.create(ctx, ip, svc)
	}
	if err != nil {
		s.unmark(ip)
	}
	return err
}

// free releases an address of a Service. An IPAddress that can't be deleted now is deleted by the repair of IPAddresses later.
func (s *addresses) free(ctx context.Context, ip netip.Addr, svc *corev1.Service, dry bool) {
	if s.objects != nil && !dry {
		if err := s.objects.remove(ctx, ip, svc); err != nil {
			slog.WarnContext(ctx, "delete the IPAddress of a Service", "address", ip, "err", err)
		}
	}
	s.unmark(ip)
}

// next allocates a free address of the first range that has one, or returns errFull.
func (s *addresses) next(ctx context.Context, svc *corev1.Service, dry bool) (netip.Addr, error) {
	ranges, err := s.ranges(ctx)
	if err != nil {
		return netip.Addr{}, err
	}
	for _, p := range ranges {
		for ip := range candidates(p, s.source.IntN) {
			err := s.take(ctx, ip, svc, dry)
			if err == nil || !errors.Is(err, errTaken) {
				return ip, err
			}
		}
	}
	return netip.Addr{}, errFull
}

// candidates yields the usable addresses of an IPv4 range: those above the static band from a random one on, then those of the band
// likewise, so that the band stays free for clients that request an address.
func candidates(p netip.Prefix, random func(int) int) func(func(netip.Addr) bool) {
	size := 1<<(32-p.Bits()) - 2
	base := number(p.Masked().Addr()) + 1
	band := staticBand(size, 16, 256)
	return func(yield func(netip.Addr) bool) {
		for _, part := range [][2]int{{band, size}, {0, band}} {
			n := part[1] - part[0]
			if n <= 0 {
				continue
			}
			start := random(n)
			for i := range n {
				if !yield(addressOf(base + uint32(part[0]+(start+i)%n))) {
					return
				}
			}
		}
	}
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func addressOf(n uint32) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	return netip.AddrFrom4(b)
}

// check returns an error unless one of the ranges that are ready has the address.
func (s *addresses) check(ctx context.Context, ip netip.Addr) error {
	ranges, err := s.ranges(ctx)
	if err != nil {
		return err
	}
	for _, p := range ranges {
		if networking.RangeHolds(p, ip) {
			return nil
		}
	}
	return errors.New("the provided network does not match the current range")
}

// clusterIPsOf returns the addresses that a Service has.
func clusterIPsOf(svc *corev1.Service) []netip.Addr {
	if !addressed(svc) {
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

// clusterIPs allocates the address of a Service without one. Validation refuses changes of other addresses.
func (a *allocation) clusterIPs(ctx context.Context) error {
	spec := &a.svc.Spec
	if !addressed(a.svc) || a.old != nil && (needsAddress(a.old) || a.prefersAsBefore()) {
		return nil
	}
	if len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] != "" {
		if err := a.requestedAddress(ctx, spec.ClusterIPs[0]); err != nil {
			return a.invalid(field.Invalid(field.NewPath("spec", "clusterIPs"), spec.ClusterIPs,
				fmt.Sprintf("failed to allocate IP %v: %v", spec.ClusterIPs[0], err)))
		}
		return nil
	}
	ip, err := a.anyAddress(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", err))
	}
	a.addressesTaken = append(a.addressesTaken, ip)
	spec.ClusterIP = ip.String()
	spec.ClusterIPs = []string{spec.ClusterIP}
	return nil
}

func (a *allocation) requestedAddress(ctx context.Context, text string) error {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return err
	}
	if err := a.addresses.check(ctx, ip); err != nil {
		return err
	}
	err = a.addresses.take(ctx, ip, a.svc, a.dry)
	if errors.Is(err, errTaken) {
		return fmt.Errorf("provided IP is already allocated")
	}
	if err == nil {
		a.addressesTaken = append(a.addressesTaken, ip)
	}
	return err
}

// anyAddress allocates a free address. The API server's own Service gets the first one of the configured range.
func (a *allocation) anyAddress(ctx context.Context) (netip.Addr, error) {
	if a.svc.Namespace == "default" && a.svc.Name == "kubernetes" {
		first := a.config.Addresses.Addr().Next()
		return first, a.addresses.take(ctx, first, a.svc, a.dry)
	}
	return a.addresses.next(ctx, a.svc, a.dry)
}
