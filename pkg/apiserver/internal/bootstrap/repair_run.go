package bootstrap

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// repairManager is the source of the Events about repairs.
const repairManager = "ipallocator-repair-controller"

// reconcileAddresses repairs the IPAddresses and sets the condition of the default ServiceCIDR, once a client has read any or the
// store has some. Until then they are virtual.
func (b *Bootstrap) reconcileAddresses(ctx context.Context) error {
	if gr := serviceRanges.GroupResource(); b.rows[gr] != nil && b.read(ctx, gr) {
		if err := b.fitRange(ctx); err != nil {
			return err
		}
	}
	if gr := ipAddresses.GroupResource(); b.rows[gr] == nil || !b.read(ctx, gr) {
		return nil
	}
	state, err := b.allocated(ctx)
	if err != nil {
		return err
	}
	return b.repairAll(ctx, state)
}

// allocated reads the Services before the IPAddresses: a Service is created after its IPAddress.
func (b *Bootstrap) allocated(ctx context.Context) (allocated, error) {
	s := allocated{services: map[objects.Key]*corev1.Service{}, addresses: map[string]*networkingv1.IPAddress{}}
	services, err := b.access.Reader.List(ctx, client.Services.GroupResource(), "")
	if err != nil {
		return s, err
	}
	addresses, err := b.access.Reader.List(ctx, ipAddresses.GroupResource(), "")
	if err != nil {
		return s, err
	}
	ranges, err := b.access.Reader.List(ctx, serviceRanges.GroupResource(), "")
	if err != nil {
		return s, err
	}
	for _, obj := range services {
		if svc, ok := obj.(*corev1.Service); ok {
			s.services[objects.Key{Namespace: svc.Namespace, Name: svc.Name}] = svc
		}
	}
	for _, obj := range addresses {
		if a, ok := obj.(*networkingv1.IPAddress); ok {
			s.addresses[a.Name] = a
		}
	}
	s.ranges = append(rangesOf(ranges), b.newServiceRange())
	return s, nil
}

// repairAll makes all repairs that are due, and makes the loop run again when the next one is.
func (b *Bootstrap) repairAll(ctx context.Context, s allocated) error {
	var all []repair
	for _, svc := range s.services {
		all = append(all, s.repairService(svc)...)
	}
	next := time.Duration(0)
	for _, a := range s.addresses {
		r, wait := s.repairAddress(a, b.config.Clock.Now())
		if wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
		if r != (repair{}) {
			all = append(all, r)
		}
	}
	b.repairsDue.reset(next)
	b.repairs.report(ctx, all)
	var writes errgroup.Group // writes that wait together are committed together
	writes.SetLimit(clock.AtOnce(ctx, -1))
	for _, r := range all {
		writes.Go(func() error { return b.apply(ctx, r) })
	}
	return writes.Wait()
}

func (b *Bootstrap) apply(ctx context.Context, r repair) error {
	if r.remove != nil {
		of := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(r.remove.UID))}
		_, err := b.access.Client(Agent).Delete(ctx, client.In(ipAddresses, objects.Key{Name: r.remove.Name}), of)
		if err := ignoreConflict(err); err != nil {
			return err
		}
	}
	if r.create == nil {
		return nil
	}
	return b.ensure(ctx, ipAddresses, r.create)
}
