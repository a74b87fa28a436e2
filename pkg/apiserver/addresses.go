package apiserver

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// The names of what has to do with the addresses of Services are Kubernetes' own.
const (
	addressManager = "ipallocator.k8s.io"
	rangeName      = "kubernetes"
	rangeManager   = "kubernetes-service-cidr-controller"
	rangeEnder     = "service-cidr-controller"
	rangeFinalizer = "networking.k8s.io/service-cidr-finalizer"
)

var (
	ipAddresses   = networkingv1.SchemeGroupVersion.WithResource("ipaddresses")
	serviceRanges = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
)

// addresses keep an IPAddress for each address that a Service has, and the ServiceCIDR that they are from. Nothing here
// reads these objects, so they are not made before somebody first asks for any: until then a Service costs nothing more.
type addresses struct {
	prefix  netip.Prefix  // that of Services
	changed chan struct{} // has room for one: a Service was written

	mu                  sync.Mutex
	asked               bool
	services, addresses uint64 // for what they were last made to fit
}

func newAddresses(prefix netip.Prefix) addresses {
	return addresses{prefix: prefix.Masked(), changed: make(chan struct{}, 1)}
}

// servicesChanged is called when a Service was written.
func (s *Server) servicesChanged() {
	select {
	case s.addresses.changed <- struct{}{}:
	default:
	}
}

// addressRest is how long the IPAddresses may be behind the Services: many Services are looked at together.
const addressRest = 100 * time.Millisecond

// keepAddresses has the IPAddresses fit the Services, once they were asked for, until ctx ends.
func (s *Server) keepAddresses(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.addresses.changed:
		}
		if err := s.fitAddresses(ctx, false); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "the IPAddresses are not those of the Services", "err", err)
		}
		_ = clock.Sleep(ctx, s.clock, addressRest) // cut short only by ctx's end
	}
}

// furnishAddresses makes what is missing before somebody looks.
func (s *Server) furnishAddresses(ctx context.Context) error {
	if err := s.fitRange(ctx); err != nil {
		return err
	}
	return s.fitAddresses(ctx, true)
}

// fitAddresses makes the IPAddresses fit the Services. Unless asked is set, nothing is made before somebody has asked.
func (s *Server) fitAddresses(ctx context.Context, asked bool) error {
	a := &s.addresses
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.asked = a.asked || asked; !a.asked {
		return nil
	}
	r := s.engine.Reader()
	services, err := r.State(ctx, client.Services.GroupResource())
	if err != nil {
		return err
	}
	addresses, err := r.State(ctx, ipAddresses.GroupResource())
	if err != nil || a.services == services.Changes && a.addresses == addresses.Changes {
		return err
	}
	want, err := s.wantedAddresses(ctx)
	if err != nil {
		return err
	}
	have, err := r.List(ctx, ipAddresses.GroupResource(), "")
	if err != nil {
		return err
	}
	if err := s.changeAddresses(ctx, have, want); err != nil {
		return err
	}
	if addresses, err = r.State(ctx, ipAddresses.GroupResource()); err != nil {
		return err
	}
	a.services, a.addresses = services.Changes, addresses.Changes
	return nil
}

// wantedAddresses are the IPAddresses that the Services need, by name.
func (s *Server) wantedAddresses(ctx context.Context) (map[string]*networkingv1.IPAddress, error) {
	list, err := s.engine.Reader().List(ctx, client.Services.GroupResource(), "")
	if err != nil {
		return nil, err
	}
	out := map[string]*networkingv1.IPAddress{}
	for _, obj := range list {
		svc, ok := obj.(*corev1.Service)
		if !ok || svc.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		for _, ip := range svc.Spec.ClusterIPs {
			if ip != "" && ip != corev1.ClusterIPNone {
				out[ip] = addressOf(ip, svc)
			}
		}
	}
	return out, nil
}

func addressOf(ip string, svc *corev1.Service) *networkingv1.IPAddress {
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{
			networkingv1.LabelIPAddressFamily: string(corev1.IPv4Protocol), networkingv1.LabelManagedBy: addressManager,
		}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: svc.Namespace, Name: svc.Name}},
	}
}

// changeAddresses removes what no Service has and makes what is missing. What somebody else has made stays.
func (s *Server) changeAddresses(ctx context.Context, have []objects.Object, want map[string]*networkingv1.IPAddress) error {
	var removals, creates errgroup.Group // writes that wait together are committed together
	for _, obj := range have {
		h, ok := obj.(*networkingv1.IPAddress)
		if !ok {
			continue
		}
		w := want[h.Name]
		fits := w != nil && h.Spec.ParentRef != nil && *h.Spec.ParentRef == *w.Spec.ParentRef
		if fits || h.Labels[networkingv1.LabelManagedBy] != addressManager {
			delete(want, h.Name)
			continue
		}
		removals.Go(func() error {
			of := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(h.UID))}
			_, err := s.Client(self, systemAgent).Delete(ctx, client.In(ipAddresses, objects.Key{Name: h.Name}), of)
			return unlessMeanwhile(err)
		})
	}
	if err := removals.Wait(); err != nil {
		return err
	}
	for _, w := range want {
		creates.Go(func() error {
			_, err := s.Client(self, systemAgent).Create(ctx, client.Target{Resource: ipAddresses}, w, metav1.CreateOptions{})
			return unlessMeanwhile(err)
		})
	}
	return creates.Wait()
}

// fitRange makes the ServiceCIDR kubernetes, and says whether it is ready.
func (s *Server) fitRange(ctx context.Context) error {
	s.addresses.mu.Lock()
	defer s.addresses.mu.Unlock()
	want := &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: rangeName, Finalizers: []string{rangeFinalizer}},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{s.addresses.prefix.String()}},
	}
	if err := s.furnishOne(ctx, systemObject{serviceRanges, want}); err != nil {
		return err
	}
	obj, err := s.engine.Reader().Get(ctx, serviceRanges.GroupResource(), objects.Key{Name: rangeName})
	if err != nil {
		return err
	}
	have, ok := obj.(*networkingv1.ServiceCIDR)
	if !ok {
		return nil
	}
	ready := meta.FindStatusCondition(have.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	switch {
	case have.DeletionTimestamp != nil: // the Service kubernetes always has an address of it
		if ready != nil && ready.Status == metav1.ConditionFalse {
			return nil
		}
		return s.tellRange(ctx, rangeEnder, metav1.Condition{Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"})
	case ready == nil && slices.Equal(have.Spec.CIDRs, want.Spec.CIDRs):
		return s.tellRange(ctx, rangeManager, metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes default Service CIDR is ready"})
	}
	return nil
}

// tellRange writes whether the range is ready, as manager.
func (s *Server) tellRange(ctx context.Context, manager string, c metav1.Condition) error {
	condition := map[string]any{"type": networkingv1.ServiceCIDRConditionReady, "status": c.Status, "message": c.Message,
		"lastTransitionTime": metav1.NewTime(s.clock.Now())}
	if c.Reason != "" {
		condition["reason"] = c.Reason
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR", "metadata": map[string]any{"name": rangeName},
		"status": map[string]any{"conditions": []any{condition}},
	})
	if err != nil {
		return err
	}
	of := metav1.PatchOptions{FieldManager: manager, Force: new(true)}
	t := client.In(serviceRanges, objects.Key{Name: rangeName}).Sub("status")
	_, err = s.Client(self, manager).Patch(ctx, t, client.Patch{Type: types.ApplyPatchType, Data: data}, of)
	return unlessMeanwhile(err)
}
