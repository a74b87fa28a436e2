// Package allocate owns what Services are given by the server: their cluster addresses and node ports. It is a hook of
// the verb engine. Nothing of it is stored: what is taken is read from the stored Services when the first one is written.
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

	"github.com/minikctl/minikctl/pkg/apiserver/internal/verbs"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/core"
)

// Config says what there is to allocate.
type Config struct {
	Addresses netip.Prefix // of Services, IPv4; the zero value: 10.96.0.0/16
	FirstPort int          // of the node ports; 0: 30000
	LastPort  int          // 0: 32767
	Changed   func()       // is told when a Service was written or is gone; nil: nobody is
}

// largest bounds how many addresses are kept track of; a wider range is used up to there.
const largest = 1 << 20

type services struct {
	config    Config
	base      uint32 // the address with number 0: the first of the range that can be used
	addresses *pool
	ports     *pool
}

// Services returns the hook that allocates for Services.
func Services(cfg Config, source *clock.Source) (verbs.Hook, error) {
	if !cfg.Addresses.IsValid() {
		cfg.Addresses = netip.MustParsePrefix("10.96.0.0/16")
	}
	if cfg.FirstPort == 0 {
		cfg.FirstPort, cfg.LastPort = 30000, 32767
	}
	cfg.Addresses = cfg.Addresses.Masked()
	if !cfg.Addresses.Addr().Is4() || cfg.Addresses.Bits() > 30 {
		return verbs.Hook{}, fmt.Errorf("service address range %s: want IPv4 with room for addresses", cfg.Addresses)
	}
	if cfg.FirstPort < 1 || cfg.LastPort < cfg.FirstPort || cfg.LastPort > 65535 {
		return verbs.Hook{}, fmt.Errorf("node port range %d-%d: not a range of ports", cfg.FirstPort, cfg.LastPort)
	}
	size := min(1<<(32-cfg.Addresses.Bits())-2, largest)
	s := &services{
		config: cfg, base: number(cfg.Addresses.Addr()) + 1,
		addresses: newPool(size, 16, 256, source),
		ports:     newPool(cfg.LastPort-cfg.FirstPort+1, 32, 128, source),
	}
	return verbs.Hook{
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

// load takes what the stored Services have. What two of them have is taken once; they stay as they are.
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
	defer s.tell()
	if svc, ok := obj.(*corev1.Service); ok {
		for _, h := range s.held(svc) {
			h.pool.free(h.n)
		}
	}
}

func (s *services) tell() {
	if s.config.Changed != nil {
		s.config.Changed()
	}
}

// holding is something that a Service has out of a pool.
type holding struct {
	pool *pool
	n    int
}

// held returns all that a Service has.
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

// prepare gives a Service what it needs. What it took is given back when the write fails, what it no longer has when
// the write is made.
func (s *services) prepare(_ context.Context, obj, old objects.Object, _ bool) (commit, undo func(), err error) {
	svc, ok := obj.(*corev1.Service)
	if !ok {
		return nil, nil, fmt.Errorf("%T is no Service", obj)
	}
	was, _ := old.(*corev1.Service)
	t := &transaction{services: s, svc: svc, old: was}
	if was != nil {
		t.had = s.held(was)
	}
	if err := t.run(); err != nil {
		t.undo()
		return nil, nil, err
	}
	return t.commit, t.undo, nil
}

// transaction is what one write takes and gives back.
type transaction struct {
	*services
	svc, old *corev1.Service
	had      []holding
	took     []holding
}

func (t *transaction) run() error {
	var old *corev1.ServiceSpec
	if t.old != nil {
		old = &t.old.Spec
	}
	core.KeepAllocated(&t.svc.Spec, old)
	if err := t.families(); err != nil {
		return err
	}
	if err := t.clusterIPs(); err != nil {
		return err
	}
	if err := t.nodePorts(); err != nil {
		return err
	}
	return t.healthPort()
}

func (t *transaction) undo() {
	for _, h := range t.took {
		h.pool.free(h.n)
	}
}

func (t *transaction) commit() {
	defer t.tell()
	has := t.held(t.svc)
	for _, h := range t.had {
		if !slices.Contains(has, h) {
			h.pool.free(h.n)
		}
	}
}

// take reserves n.
func (t *transaction) take(p *pool, n int) error {
	if err := p.take(n); err != nil {
		return err
	}
	t.took = append(t.took, holding{p, n})
	return nil
}

func (t *transaction) next(p *pool) (int, error) {
	n, err := p.next()
	if err == nil {
		t.took = append(t.took, holding{p, n})
	}
	return n, err
}

func (t *transaction) invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, t.svc.Name, errs)
}

// clusterIPs gives a Service that had none its address. Those of others don't change, which validation sees to.
func (t *transaction) clusterIPs() error {
	spec := &t.svc.Spec
	if !addressed(t.svc) || t.old != nil && (needsAddress(t.old) || t.prefersAsBefore()) {
		return nil
	}
	if len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] != "" {
		ip := spec.ClusterIPs[0]
		n, err := t.numberOf(ip)
		if err == nil {
			if t.take(t.addresses, n) != nil {
				err = fmt.Errorf("provided IP is already allocated")
			}
		}
		if err != nil {
			return t.invalid(field.Invalid(field.NewPath("spec", "clusterIPs"), spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %v: %v", ip, err)))
		}
		return nil
	}
	var n int
	var err error
	if first := t.svc.Namespace == "default" && t.svc.Name == "kubernetes"; first {
		err = t.take(t.addresses, 0) // the API server's own
	} else {
		n, err = t.next(t.addresses)
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", err))
	}
	spec.ClusterIP = t.address(n)
	spec.ClusterIPs = []string{spec.ClusterIP}
	return nil
}
