// Package allocate owns the cluster addresses and node ports of Services. It is a hook of the verb engine. The allocations are
// kept in memory only: they are read from the stored Services before the first write of one.
package allocate

import (
	"context"
	"encoding/binary"
	"errors"
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
	FirstPort int          // of the node ports; 0: 30000
	LastPort  int          // 0: 32767
}

// largest bounds the addresses of a pool; of a larger range only the first ones are used.
const largest = 1 << 20

type services struct {
	config    Config
	base      uint32 // the address with number 0, the first usable one of the range
	addresses *pool
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
	size := min(1<<(32-cfg.Addresses.Bits())-2, largest)
	s := &services{
		config: cfg, base: number(cfg.Addresses.Addr()) + 1,
		addresses: newPool(size, 16, 256, source),
		ports:     newPool(cfg.LastPort-cfg.FirstPort+1, 32, 128, source),
	}
	return stage.Hook{
		Resource: schema.GroupResource{Resource: "services"},
		Load:     s.load, Prepare: s.prepare, Deleted: s.deleted,
	}, nil
}

func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func (s *services) address(n int) string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], s.base+uint32(n))
	return netip.AddrFrom4(b).String()
}

// load allocates the addresses and ports of the stored Services. Those that two Services share are allocated once.
func (s *services) load(current []objects.Object) {
	for _, obj := range current {
		if svc, ok := obj.(*corev1.Service); ok {
			for _, h := range s.held(svc) {
				_ = h.pool.take(h.n)
			}
		}
	}
}

func (s *services) deleted(obj objects.Object) {
	defer s.notifyChanged()
	if svc, ok := obj.(*corev1.Service); ok {
		for _, h := range s.held(svc) {
			h.pool.free(h.n)
		}
	}
}

func (s *services) notifyChanged() {
}

// holding is a number of a pool that a Service has.
type holding struct {
	pool *pool
	n    int
}

// held returns the addresses and ports of a Service.
func (s *services) held(svc *corev1.Service) []holding {
	var out []holding
	add := func(h holding) {
		if !slices.Contains(out, h) {
			out = append(out, h)
		}
	}
	if addressed(svc) {
		for _, ip := range svc.Spec.ClusterIPs {
			if n, err := s.numberOf(ip); err == nil {
				add(holding{s.addresses, n})
			}
		}
	}
	for _, p := range svc.Spec.Ports {
		if n, ok := s.portNumber(int(p.NodePort)); ok {
			add(holding{s.ports, n})
		}
	}
	if n, ok := s.portNumber(int(svc.Spec.HealthCheckNodePort)); ok {
		add(holding{s.ports, n})
	}
	return out
}

func (s *services) numberOf(ip string) (int, error) {
	a, err := netip.ParseAddr(ip)
	if err != nil {
		return 0, err
	}
	if !s.config.Addresses.Contains(a) {
		return 0, errors.New("the provided network does not match the current range")
	}
	if n := int(number(a)) - int(s.base); n >= 0 && n < s.addresses.size {
		return n, nil
	}
	return 0, fmt.Errorf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", ip, s.config.Addresses)
}

func (s *services) portNumber(port int) (int, bool) {
	return port - s.config.FirstPort, port >= s.config.FirstPort && port <= s.config.LastPort
}

// prepare allocates the addresses and ports that a Service needs. The transaction's rollback frees them; its commit frees those
// that the Service no longer has.
func (s *services) prepare(_ context.Context, tx *stage.Transaction, obj, old objects.Object) error {
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return fmt.Errorf("%T is no Service", obj)
	}
	previous, _ := old.(*corev1.Service)
	a := &allocation{services: s, svc: svc, old: previous}
	if previous != nil {
		a.before = s.held(previous)
	}
	tx.OnRollback(func(context.Context) { a.free() })
	tx.OnCommit(func(context.Context) { a.freeOld() })
	return a.run()
}

// allocation is the allocations of one write of a Service.
type allocation struct {
	*services
	svc, old *corev1.Service
	before   []holding // of old
	taken    []holding // by this write
}

func (a *allocation) run() error {
	var old *corev1.ServiceSpec
	if a.old != nil {
		old = &a.old.Spec
	}
	core.KeepAllocated(&a.svc.Spec, old)
	if err := a.families(); err != nil {
		return err
	}
	if err := a.clusterIPs(); err != nil {
		return err
	}
	if err := a.nodePorts(); err != nil {
		return err
	}
	return a.healthPort()
}

// free frees the allocations of the write.
func (a *allocation) free() {
	for _, h := range a.taken {
		h.pool.free(h.n)
	}
}

// freeOld frees the addresses and ports of the old Service that the new one does not have.
func (a *allocation) freeOld() {
	defer a.notifyChanged()
	has := a.held(a.svc)
	for _, h := range a.before {
		if !slices.Contains(has, h) {
			h.pool.free(h.n)
		}
	}
}

// take allocates n.
func (a *allocation) take(p *pool, n int) error {
	if err := p.take(n); err != nil {
		return err
	}
	a.taken = append(a.taken, holding{p, n})
	return nil
}

func (a *allocation) next(p *pool) (int, error) {
	n, err := p.next()
	if err == nil {
		a.taken = append(a.taken, holding{p, n})
	}
	return n, err
}

func (a *allocation) invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, a.svc.Name, errs)
}

// clusterIPs allocates the address of a Service without one. Validation refuses changes of other addresses.
func (a *allocation) clusterIPs() error {
	spec := &a.svc.Spec
	if !addressed(a.svc) || a.old != nil && (needsAddress(a.old) || a.prefersAsBefore()) {
		return nil
	}
	if len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] != "" {
		ip := spec.ClusterIPs[0]
		n, err := a.numberOf(ip)
		if err == nil {
			if a.take(a.addresses, n) != nil {
				err = fmt.Errorf("provided IP is already allocated")
			}
		}
		if err != nil {
			return a.invalid(field.Invalid(field.NewPath("spec", "clusterIPs"), spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %v: %v", ip, err)))
		}
		return nil
	}
	var n int
	var err error
	if first := a.svc.Namespace == "default" && a.svc.Name == "kubernetes"; first {
		err = a.take(a.addresses, 0) // the API server's own
	} else {
		n, err = a.next(a.addresses)
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", err))
	}
	spec.ClusterIP = a.address(n)
	spec.ClusterIPs = []string{spec.ClusterIP}
	return nil
}
