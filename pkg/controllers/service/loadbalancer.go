// Package service holds the controller of Services of type LoadBalancer.
package service

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

// cleanupFinalizer is the finalizer of a Service that has a load balancer's address.
const cleanupFinalizer = "service.kubernetes.io/load-balancer-cleanup"

type loadBalancer struct {
	client   client.Client
	events   *client.Recorder
	services *client.Cache[*corev1.Service]
	balancer netip.Prefix

	last netip.Addr // the one that was allocated last
}

// LoadBalancer allocates addresses of the cluster's own load balancer to Services of type LoadBalancer, and releases them, with the finalizer
// and the Events of the service controller of Kubernetes. Services with a loadBalancerClass are left to other controllers. It does
// nothing in a cluster that serves no such addresses.
func LoadBalancer(env controller.Env) reconcile.Loop {
	loop := reconcile.Loop{Name: "loadbalancer"}
	if !env.LoadBalancers.IsValid() {
		return loop
	}
	r := &loadBalancer{
		client: env.Client, events: env.Events, services: client.CacheOf[*corev1.Service](env.Caches, client.Services), balancer: env.LoadBalancers,
	}
	loop.Sources = []reconcile.Source{reconcile.Watch(r.services), reconcile.Map(r.services, r.waiting)}
	loop.Reconcile = r.reconcile
	loop.Workers = 1 // so that no two Services get one address
	return loop
}

// waiting maps a Service whose address has become free to the Services that want one.
func (r *loadBalancer) waiting(ch client.Change[*corev1.Service]) []objects.Key {
	if ch.Added() || len(ch.Old.Status.LoadBalancer.Ingress) == 0 || !ch.Deleted() && len(ch.New.Status.LoadBalancer.Ingress) > 0 {
		return nil
	}
	var keys []objects.Key
	for _, svc := range r.services.List("", nil) {
		if wantsAddress(svc) && !r.hasAddress(svc) {
			keys = append(keys, controller.KeyOf(svc))
		}
	}
	return keys
}

func (r *loadBalancer) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	svc, ok := r.services.Get(key)
	if !ok {
		return 0, nil
	}
	switch {
	case needsCleanup(svc):
		return 0, r.deleteLoadBalancer(ctx, svc)
	case wantsAddress(svc) && svc.DeletionTimestamp == nil && !r.hasAddress(svc):
		return 0, r.ensureLoadBalancer(ctx, svc)
	}
	return 0, nil
}

// wantsAddress reports whether the Service wants the cluster's own load balancer.
func wantsAddress(svc *corev1.Service) bool {
	return svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass == nil
}

// needsCleanup reports whether the Service has an address that it no longer wants.
func needsCleanup(svc *corev1.Service) bool {
	return slices.Contains(svc.Finalizers, cleanupFinalizer) && (svc.DeletionTimestamp != nil || svc.Spec.Type != corev1.ServiceTypeLoadBalancer)
}

// hasAddress reports whether the Service has the address that it requests, or any. An address that another client has set counts.
func (r *loadBalancer) hasAddress(svc *corev1.Service) bool {
	ingress := svc.Status.LoadBalancer.Ingress
	if !slices.Contains(svc.Finalizers, cleanupFinalizer) || len(ingress) == 0 {
		return false
	}
	asked, err := netip.ParseAddr(svc.Spec.LoadBalancerIP)
	have, haveErr := netip.ParseAddr(ingress[0].IP)
	return err != nil || haveErr != nil || asked == have || !r.balancer.Contains(have)
}

func (r *loadBalancer) ensureLoadBalancer(ctx context.Context, svc *corev1.Service) error {
	r.events.Event(ctx, svc, corev1.EventTypeNormal, "EnsuringLoadBalancer", "Ensuring load balancer")
	at, err := allocate(svc, r.services.List("", nil), r.balancer, r.last)
	if err == nil {
		vip := corev1.LoadBalancerIPModeVIP
		err = r.patch(ctx, svc, map[string]any{
			"metadata": map[string]any{"finalizers": []string{cleanupFinalizer}},
			"status":   map[string]any{"loadBalancer": corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: at.String(), IPMode: &vip}}}},
		})
	}
	if err != nil {
		r.events.Event(ctx, svc, corev1.EventTypeWarning, "SyncLoadBalancerFailed", fmt.Sprintf("Error syncing load balancer: failed to ensure load balancer: %v", err))
		return err
	}
	r.last = at
	r.events.Event(ctx, svc, corev1.EventTypeNormal, "EnsuredLoadBalancer", "Ensured load balancer")
	return nil
}

func (r *loadBalancer) deleteLoadBalancer(ctx context.Context, svc *corev1.Service) error {
	r.events.Event(ctx, svc, corev1.EventTypeNormal, "DeletingLoadBalancer", "Deleting load balancer")
	err := controller.IgnoreNotFound(r.patch(ctx, svc, map[string]any{
		"metadata": map[string]any{"$deleteFromPrimitiveList/finalizers": []string{cleanupFinalizer}},
		"status":   map[string]any{"loadBalancer": map[string]any{"ingress": nil}},
	}))
	if err != nil {
		r.events.Event(ctx, svc, corev1.EventTypeWarning, "SyncLoadBalancerFailed", fmt.Sprintf("Error syncing load balancer: failed to delete load balancer: %v", err))
		return err
	}
	r.events.Event(ctx, svc, corev1.EventTypeNormal, "DeletedLoadBalancer", "Deleted load balancer")
	return nil
}

// patch changes the status and the finalizers of a Service: its role may write the subresource only.
func (r *loadBalancer) patch(ctx context.Context, svc *corev1.Service, change map[string]any) error {
	data, err := json.Marshal(change)
	if err != nil {
		return err
	}
	t := client.In(client.Services, controller.KeyOf(svc))
	t.Subresource = "status"
	out, err := r.client.Patch(ctx, t, client.Patch{Type: types.StrategicMergePatchType, Data: data}, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	if written, ok := out.(*corev1.Service); ok {
		r.services.Put(written)
	}
	return nil
}

// allocate returns the address for a Service: the one that it requests, or the first free one after last.
func allocate(svc *corev1.Service, all []*corev1.Service, balancer netip.Prefix, last netip.Addr) (netip.Addr, error) {
	taken := map[netip.Addr]string{}
	for _, other := range all {
		if other.Namespace == svc.Namespace && other.Name == svc.Name {
			continue
		}
		for _, in := range other.Status.LoadBalancer.Ingress {
			if ip, err := netip.ParseAddr(in.IP); err == nil {
				taken[ip] = other.Namespace + "/" + other.Name
			}
		}
	}
	if asked, err := netip.ParseAddr(svc.Spec.LoadBalancerIP); err == nil {
		switch owner := taken[asked]; {
		case !usable(balancer, asked):
			return netip.Addr{}, fmt.Errorf("the load balancer has no address %s: its addresses are those of %s", asked, balancer)
		case owner != "":
			return netip.Addr{}, fmt.Errorf("service %s has the address %s", owner, asked)
		}
		return asked, nil
	}
	at := last
	for range 1 << (balancer.Addr().BitLen() - balancer.Bits()) {
		if at = at.Next(); !balancer.Contains(at) {
			at = balancer.Addr()
		}
		if usable(balancer, at) && taken[at] == "" {
			return at, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("the load balancer has no free address in %s", balancer)
}

// usable reports whether an address is the load balancer's and does not look like a network or broadcast address.
func usable(balancer netip.Prefix, at netip.Addr) bool {
	if !at.Is4() || !balancer.Contains(at) {
		return false
	}
	last := at.As4()[3]
	return last != 0 && last != 255
}
