// Package networking owns the controllers of the API group networking.k8s.io.
package networking

import (
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/networking"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var (
	serviceRanges = networkingv1.SchemeGroupVersion.WithResource("servicecidrs")
	ipAddresses   = networkingv1.SchemeGroupVersion.WithResource("ipaddresses")
)

// rangeManager is the field manager of the conditions of ServiceCIDRs.
const rangeManager = "service-cidr-controller"

// deletionGrace is how long a ServiceCIDR that nothing depends on stays after its deletion was requested: until then an API server may
// still allocate from it.
const deletionGrace = 10 * time.Second

type serviceRange struct {
	env       controller.Env
	ranges    *client.Cache[*networkingv1.ServiceCIDR]
	addresses *client.Cache[*networkingv1.IPAddress]
}

// ServiceCIDR reports ServiceCIDRs as ready, and protects those that are being deleted while they are the only range of an IPAddress of
// a Service.
func ServiceCIDR(env controller.Env) reconcile.Loop {
	r := serviceRange{
		env: env, ranges: client.CacheOf[*networkingv1.ServiceCIDR](env.Caches, serviceRanges),
		addresses: client.CacheOf[*networkingv1.IPAddress](env.Caches, ipAddresses),
	}
	return reconcile.Loop{
		Name: "servicecidr",
		Sources: []reconcile.Source{
			reconcile.Watch(r.ranges), reconcile.Map(r.ranges, r.overlapping), reconcile.Map(r.addresses, r.containing),
		},
		Reconcile: r.reconcile,
	}
}

// overlapping maps a new ServiceCIDR to those whose deletion it may unblock.
func (r serviceRange) overlapping(ch client.Change[*networkingv1.ServiceCIDR]) []objects.Key {
	if !ch.Added() {
		return nil
	}
	var keys []objects.Key
	for _, other := range r.ranges.List("", labels.Everything()) {
		if overlap(ch.New, other) {
			keys = append(keys, controller.KeyOf(other))
		}
	}
	return keys
}

func overlap(a, b *networkingv1.ServiceCIDR) bool {
	return slices.ContainsFunc(networking.Prefixes(a), func(p netip.Prefix) bool {
		return slices.ContainsFunc(networking.Prefixes(b), p.Overlaps)
	})
}

// containing maps a new or deleted IPAddress of a Service to the ServiceCIDRs whose deletion it blocks or unblocks.
func (r serviceRange) containing(ch client.Change[*networkingv1.IPAddress]) []objects.Key {
	a := ch.New
	switch {
	case ch.Deleted():
		a = ch.Old
	case !ch.Added():
		return nil
	}
	ip, err := netip.ParseAddr(a.Name)
	if err != nil || !networking.ManagesAddress(a) {
		return nil
	}
	var keys []objects.Key
	for _, with := range networking.RangesWith(r.ranges.List("", labels.Everything()), ip) {
		keys = append(keys, controller.KeyOf(with))
	}
	return keys
}

func (r serviceRange) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	c, ok := r.ranges.Get(key)
	if !ok {
		return 0, nil
	}
	if c.DeletionTimestamp != nil {
		return r.finalize(ctx, c)
	}
	if !slices.Contains(c.Finalizers, networking.RangeFinalizer) {
		if err := r.patchFinalizers(ctx, c, "finalizers"); err != nil {
			return 0, err
		}
	}
	err := r.setCondition(ctx, c, metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"})
	if err != nil {
		r.env.Events.Event(ctx, c, corev1.EventTypeWarning, "KubernetesServiceCIDRError", "The ServiceCIDR Status can not be set to Ready=True")
	}
	return 0, err
}

// finalize takes the next step of the deletion of a ServiceCIDR.
func (r serviceRange) finalize(ctx context.Context, c *networkingv1.ServiceCIDR) (time.Duration, error) {
	if !deletable(c, r.ranges.List("", labels.Everything()), r.addresses.List("", labels.Everything())) {
		return 0, r.setCondition(ctx, c, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
		})
	}
	if wait := deletionGrace - r.env.Clock.Now().Sub(c.DeletionTimestamp.Time); wait > 0 {
		return wait, nil
	}
	if !slices.Contains(c.Finalizers, networking.RangeFinalizer) {
		return 0, nil
	}
	return 0, r.patchFinalizers(ctx, c, "$deleteFromPrimitiveList/finalizers")
}

// deletable reports whether other ServiceCIDRs contain the ranges of c, or else all IPAddresses of Services in them.
func deletable(c *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR, addresses []*networkingv1.IPAddress) bool {
	others := slices.DeleteFunc(slices.Clone(all), func(o *networkingv1.ServiceCIDR) bool { return o.Name == c.Name })
	contained := func(p netip.Prefix) bool {
		return slices.ContainsFunc(others, func(o *networkingv1.ServiceCIDR) bool {
			return slices.ContainsFunc(networking.Prefixes(o), func(q netip.Prefix) bool { return q.Overlaps(p) && q.Bits() <= p.Bits() })
		})
	}
	if !slices.ContainsFunc(networking.Prefixes(c), func(p netip.Prefix) bool { return !contained(p) }) {
		return true
	}
	own := []*networkingv1.ServiceCIDR{c}
	return !slices.ContainsFunc(addresses, func(a *networkingv1.IPAddress) bool {
		ip, err := netip.ParseAddr(a.Name)
		return err == nil && networking.IsServiceAddress(a) && len(networking.RangesWith(own, ip)) > 0 && len(networking.RangesWith(others, ip)) == 0
	})
}

// patchFinalizers adds the finalizer, or removes it, by the field of a strategic merge patch.
func (r serviceRange) patchFinalizers(ctx context.Context, c *networkingv1.ServiceCIDR, field string) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{field: []string{networking.RangeFinalizer}}})
	if err != nil {
		return err
	}
	patch := client.Patch{Type: types.StrategicMergePatchType, Data: data}
	_, err = r.env.Client.Patch(ctx, client.In(serviceRanges, controller.KeyOf(c)), patch, metav1.PatchOptions{})
	return controller.IgnoreNotFound(err)
}

// setCondition sets the condition Ready, unless it is as wanted.
func (r serviceRange) setCondition(ctx context.Context, c *networkingv1.ServiceCIDR, want metav1.Condition) error {
	want.Type = networkingv1.ServiceCIDRConditionReady
	have := meta.FindStatusCondition(c.Status.Conditions, want.Type)
	if have != nil && have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
		return nil
	}
	want.LastTransitionTime = metav1.NewTime(r.env.Clock.Now())
	data, err := json.Marshal(map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR", "metadata": map[string]any{"name": c.Name},
		"status": map[string]any{"conditions": []metav1.Condition{want}},
	})
	if err != nil {
		return err
	}
	patch := client.Patch{Type: types.ApplyPatchType, Data: data}
	_, err = r.env.Client.Patch(ctx, client.In(serviceRanges, controller.KeyOf(c)).Sub("status"), patch,
		metav1.PatchOptions{FieldManager: rangeManager, Force: new(true)})
	return err
}
