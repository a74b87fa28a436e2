package bootstrap

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
)

// The names and labels of IPAddresses and ServiceCIDRs, as in Kubernetes.
const (
	addressManager          = "ipallocator.k8s.io"
	rangeManager            = "kubernetes-service-cidr-controller"
	rangeTerminatingManager = "service-cidr-controller"
	rangeFinalizer          = "networking.k8s.io/service-cidr-finalizer"
)

var (
	ipAddresses   = networkingv1.SchemeGroupVersion.WithResource("ipaddresses")
	serviceRanges = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
)

// addressDelay is how long the IPAddresses may be behind the Services: one run serves many writes of Services.
const addressDelay = 100 * time.Millisecond

// ServiceAddress returns the cluster address of the Service kubernetes: the first of the range.
func ServiceAddress(services netip.Prefix) string { return services.Masked().Addr().Next().String() }

// ipAddresses returns an IPAddress for each address that a Service has.
func (b *Bootstrap) ipAddresses(ctx context.Context) ([]virtual, error) {
	row := b.rows[client.Services.GroupResource()]
	if row == nil {
		return nil, nil
	}
	page, err := b.store.List(ctx, cache.Prefix(row.Names.GR()), store.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []virtual
	for _, e := range page.Entries {
		obj, err := cache.Decode(row, e.Value)
		if err != nil {
			continue // the value cannot be decoded; the cache reports it
		}
		for _, a := range addressesOf(obj) {
			out = append(out, virtual{object: a})
		}
	}
	return out, nil
}

// addressesOf returns the IPAddresses of a Service.
func addressesOf(obj objects.Object) []*networkingv1.IPAddress {
	svc, ok := obj.(*corev1.Service)
	if !ok || svc.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var out []*networkingv1.IPAddress
	for _, ip := range svc.Spec.ClusterIPs {
		if ip == "" || ip == corev1.ClusterIPNone {
			continue
		}
		out = append(out, &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: ip, Labels: map[string]string{
				networkingv1.LabelIPAddressFamily: string(corev1.IPv4Protocol), networkingv1.LabelManagedBy: addressManager,
			}},
			Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: svc.Namespace, Name: svc.Name}},
		})
	}
	return out
}

func (b *Bootstrap) newServiceRange() *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: kubernetesName, Finalizers: []string{rangeFinalizer}},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{b.config.ServiceAddresses.Masked().String()}},
	}
}

func (b *Bootstrap) serviceRange(context.Context) ([]virtual, error) {
	return []virtual{{object: b.newServiceRange(), status: &status{rangeManager, rangeStatus(b.created, rangeReady)}}}, nil
}

var (
	rangeReady       = metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes default Service CIDR is ready"}
	rangeTerminating = metav1.Condition{
		Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
		Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
	}
)

// rangeStatus returns the status of a ServiceCIDR with one condition.
func rangeStatus(at metav1.Time, c metav1.Condition) map[string]any {
	condition := map[string]any{
		"type": networkingv1.ServiceCIDRConditionReady, "status": string(c.Status), "message": c.Message,
		"lastTransitionTime": at.UTC().Format(time.RFC3339),
	}
	if c.Reason != "" {
		condition["reason"] = c.Reason
	}
	return map[string]any{"conditions": []any{condition}}
}

// reconcileAddresses makes the IPAddresses fit the Services, and sets the condition of the ServiceCIDR, once a client has
// read any. Until then they are virtual.
func (b *Bootstrap) reconcileAddresses(ctx context.Context) error {
	if gr := serviceRanges.GroupResource(); b.rows[gr] != nil && b.read(ctx, gr) {
		if err := b.fitRange(ctx); err != nil {
			return err
		}
	}
	gr := ipAddresses.GroupResource()
	if b.rows[gr] == nil || !b.read(ctx, gr) {
		return nil
	}
	services, err := b.access.Reader.List(ctx, client.Services.GroupResource(), "")
	if err != nil {
		return err
	}
	want := map[string]*networkingv1.IPAddress{}
	for _, svc := range services {
		for _, a := range addressesOf(svc) {
			want[a.Name] = a
		}
	}
	have, err := b.access.Reader.List(ctx, gr, "")
	if err != nil {
		return err
	}
	return b.fitAddresses(ctx, have, want)
}

// fitAddresses deletes the IPAddresses that no Service has and creates the missing ones. Those of other managers stay.
func (b *Bootstrap) fitAddresses(ctx context.Context, have []objects.Object, want map[string]*networkingv1.IPAddress) error {
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
			_, err := b.access.Client(Agent).Delete(ctx, client.In(ipAddresses, objects.Key{Name: h.Name}), of)
			return ignoreConflict(err)
		})
	}
	if err := removals.Wait(); err != nil {
		return err
	}
	for _, w := range want {
		creates.Go(func() error { return b.ensure(ctx, ipAddresses, w) })
	}
	return creates.Wait()
}

// fitRange creates the ServiceCIDR kubernetes again when it was deleted, and sets its condition.
func (b *Bootstrap) fitRange(ctx context.Context) error {
	want := b.newServiceRange()
	if err := b.ensure(ctx, serviceRanges, want.DeepCopy()); err != nil {
		return err
	}
	obj, err := b.access.Reader.Get(ctx, serviceRanges.GroupResource(), objects.Key{Name: kubernetesName})
	if err != nil {
		return ignoreConflict(err)
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
		return b.setRangeCondition(ctx, rangeTerminatingManager, rangeTerminating)
	case ready == nil && slices.Equal(have.Spec.CIDRs, want.Spec.CIDRs):
		return b.setRangeCondition(ctx, rangeManager, rangeReady)
	}
	return nil
}

func (b *Bootstrap) setRangeCondition(ctx context.Context, manager string, c metav1.Condition) error {
	data, err := json.Marshal(map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR", "metadata": map[string]any{"name": kubernetesName},
		"status": rangeStatus(metav1.NewTime(b.config.Clock.Now()), c),
	})
	if err != nil {
		return err
	}
	t := client.In(serviceRanges, objects.Key{Name: kubernetesName}).Sub("status")
	_, err = b.access.Client(manager).Patch(ctx, t, client.Patch{Type: types.ApplyPatchType, Data: data},
		metav1.PatchOptions{FieldManager: manager, Force: new(true)})
	return ignoreConflict(err)
}
