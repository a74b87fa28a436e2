// Package allocate owns the cluster addresses and node ports of Services. It is a hook of the verb engine. The addresses come from
// the ServiceCIDRs, and an IPAddress reserves each. The node ports are kept in memory only: they are read from the stored Services
// before the first write of one.
package allocate

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
)

// Config holds the ranges to allocate from.
type Config struct {
	Addresses netip.Prefix // of Services, IPv4; the zero value: 10.96.0.0/16
	Objects   *Objects     // nil: Addresses is the only range, and no IPAddresses are kept
	FirstPort int          // of the node ports; 0: 30000
	LastPort  int          // 0: 32767
}

type services struct {
	config    Config
	addresses *addresses
	ports     *pool
}

// Services returns the hook that allocates for Services.
func Services(cfg Config, source *clock.Source) (stage.Hook, error) {
	if !cfg.Addresses.IsValid() {
		cfg.Addresses = netip.MustParsePrefix("10.96.0.0/16")
	}
	if cfg.FirstPort == 0 {
		cfg.FirstPort, cfg.LastPort = 30000, 32767
	}
	cfg.Addresses = cfg.Addresses.Masked()
	if !cfg.Addresses.Addr().Is4() || cfg.Addresses.Bits() > 30 {
		return stage.Hook{}, fmt.Errorf("service address range %s: want IPv4 with room for addresses", cfg.Addresses)
	}
	if cfg.FirstPort < 1 || cfg.LastPort < cfg.FirstPort || cfg.LastPort > 65535 {
		return stage.Hook{}, fmt.Errorf("node port range %d-%d: not a range of ports", cfg.FirstPort, cfg.LastPort)
	}
	s := &services{
		config:    cfg,
		addresses: &addresses{configured: cfg.Addresses, objects: cfg.Objects, source: source, taken: map[netip.Addr]struct{}{}},
		ports:     newPool(cfg.LastPort-cfg.FirstPort+1, 32, 128, source),
	}
	return stage.Hook{
		Resource: schema.GroupResource{Resource: "services"},
		Load:     s.load, Prepare: s.prepare, Deleted: s.deleted, Released: s.released,
	}, nil
}

// load allocates the addresses and ports of the stored Services. Those that two Services share are allocated once.
func (s *services) load(current []objects.Object) {
	for _, obj := range current {
		if svc, ok := obj.(*corev1.Service); ok {
			for _, n := range s.held(svc) {
				_ = s.ports.take(n)
			}
			for _, ip := range clusterIPsOf(svc) {
				_ = s.addresses.mark(ip)
			}
		}
	}
}

// deleted frees the ports of a deleted Service.
func (s *services) deleted(obj objects.Object) {
	if svc, ok := obj.(*corev1.Service); ok {
		for _, n := range s.held(svc) {
			s.ports.free(n)
		}
	}
}

// released frees the addresses of a deleted Service.
func (s *services) released(ctx context.Context, obj objects.Object) {
	if svc, ok := obj.(*corev1.Service); ok {
		for _, ip := range clusterIPsOf(svc) {
			s.addresses.free(ctx, ip, svc, false)
		}
	}
}

// held returns the numbers of the node ports of a Service.
func (s *services) held(svc *corev1.Service) []int {
	var out []int
	add := func(port int32) {
		if n, ok := s.portNumber(int(port)); ok && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	for _, p := range svc.Spec.Ports {
		add(p.NodePort)
	}
	add(svc.Spec.HealthCheckNodePort)
	return out
}

func (s *services) portNumber(port int) (int, bool) {
	return port - s.config.FirstPort, port >= s.config.FirstPort && port <= s.config.LastPort
}

// prepare allocates the addresses and ports that a Service needs. The transaction's rollback frees them; its commit frees those
// that the Service no longer has.
func (s *services) prepare(ctx context.Context, tx *stage.Transaction, obj, old objects.Object) error {
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return fmt.Errorf("%T is no Service", obj)
	}
	previous, _ := old.(*corev1.Service)
	a := &allocation{services: s, svc: svc, old: previous, dry: tx.DryRun}
	if previous != nil {
		a.before = s.held(previous)
	}
	tx.OnRollback(a.free)
	tx.OnCommit(a.freeOld)
	return a.run(ctx)
}

// allocation is the allocations of one write of a Service.
type allocation struct {
	*services
	svc, old *corev1.Service
	dry      bool
	before   []int // the ports of old
	taken    []int // the ports that this write has taken

	addressesTaken []netip.Addr // by this write
}

func (a *allocation) run(ctx context.Context) error {
	var old *corev1.ServiceSpec
	if a.old != nil {
		old = &a.old.Spec
	}
	core.KeepAllocated(&a.svc.Spec, old)
	if err := a.families(); err != nil {
		return err
	}
	if err := a.clusterIPs(ctx); err != nil {
		return err
	}
	if err := a.nodePorts(); err != nil {
		return err
	}
	return a.healthPort()
}

// free frees the allocations of the write.
func (a *allocation) free(ctx context.Context) {
	for _, n := range a.taken {
		a.ports.free(n)
	}
	for _, ip := range a.addressesTaken {
		a.addresses.free(ctx, ip, a.svc, a.dry)
	}
}

// freeOld frees the addresses and ports of the old Service that the new one does not have.
func (a *allocation) freeOld(ctx context.Context) {
	has := a.held(a.svc)
	for _, n := range a.before {
		if !slices.Contains(has, n) {
			a.ports.free(n)
		}
	}
	if a.old == nil {
		return
	}
	kept := clusterIPsOf(a.svc)
	for _, ip := range clusterIPsOf(a.old) {
		if !slices.Contains(kept, ip) {
			a.addresses.free(context.WithoutCancel(ctx), ip, a.old, false)
		}
	}
}

// take allocates the port with number n.
func (a *allocation) take(n int) error {
	if err := a.ports.take(n); err != nil {
		return err
	}
	a.taken = append(a.taken, n)
	return nil
}

func (a *allocation) next() (int, error) {
	n, err := a.ports.next()
	if err == nil {
		a.taken = append(a.taken, n)
	}
	return n, err
}

func (a *allocation) invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, a.svc.Name, errs)
}
