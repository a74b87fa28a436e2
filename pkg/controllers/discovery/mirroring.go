package discovery

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

const (
	// mirroringController is the value of the label endpointslice.kubernetes.io/managed-by.
	mirroringController = "endpointslicemirroring-controller.k8s.io"

	// maxMirrored is the default of kube-controller-manager's --mirroring-max-endpoints-per-subset.
	maxMirrored = 1000
)

type mirroring struct {
	client    client.Client
	events    *client.Recorder
	services  *client.Cache[*corev1.Service]
	endpoints *client.Cache[*corev1.Endpoints]
	slices    *client.Cache[*discoveryv1.EndpointSlice]
}

// Mirroring keeps EndpointSlices with the addresses of the Endpoints that clients write for Services without a selector.
func Mirroring(env controller.Env) reconcile.Loop {
	m := &mirroring{
		client: env.Client, events: env.Events,
		services:  client.CacheOf[*corev1.Service](env.Caches, client.Services),
		endpoints: client.CacheOf[*corev1.Endpoints](env.Caches, endpointsResource),
		slices:    client.CacheOf[*discoveryv1.EndpointSlice](env.Caches, endpointSlices),
	}
	return reconcile.Loop{
		Name: "endpointslicemirroring",
		Sources: []reconcile.Source{
			reconcile.Map(m.endpoints, mirrorableEndpoints), reconcile.Map(m.services, selectorChanges), reconcile.Map(m.slices, mirroredFor),
		},
		Reconcile: m.reconcile,
		Workers:   controller.Workers,
	}
}

// mirrors reports whether Endpoints are mirrored, provided that their Service has no selector.
func mirrors(ep *corev1.Endpoints) bool {
	_, elects := ep.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	return !elects && ep.Labels[discoveryv1.LabelSkipMirror] != "true"
}

func mirrorableEndpoints(ch client.Change[*corev1.Endpoints]) []objects.Key {
	if (ch.Added() || !mirrors(ch.Old)) && (ch.Deleted() || !mirrors(ch.New)) {
		return nil
	}
	return []objects.Key{ch.Key()}
}

// selectorChanges maps a Service to its Endpoints when it comes to be without a selector, or ceases to be so.
func selectorChanges(ch client.Change[*corev1.Service]) []objects.Key {
	before := !ch.Added() && ch.Old.Spec.Selector == nil
	after := !ch.Deleted() && ch.New.Spec.Selector == nil
	if before == after {
		return nil
	}
	return []objects.Key{ch.Key()}
}

// mirroredFor maps a slice of this controller to the Endpoints that it mirrors.
func mirroredFor(ch client.Change[*discoveryv1.EndpointSlice]) []objects.Key {
	var keys []objects.Key
	add := func(s *discoveryv1.EndpointSlice) {
		if name := s.Labels[discoveryv1.LabelServiceName]; name != "" && s.Labels[discoveryv1.LabelManagedBy] == mirroringController {
			keys = append(keys, objects.Key{Namespace: s.Namespace, Name: name})
		}
	}
	if !ch.Added() {
		add(ch.Old)
	}
	if !ch.Deleted() {
		add(ch.New)
	}
	if len(keys) == 2 && keys[0] == keys[1] {
		keys = keys[:1]
	}
	return keys
}

func (m *mirroring) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	existing := m.existing(key)
	service, hasService := m.services.Get(key)
	ep, ok := m.endpoints.Get(key)
	if !ok || !mirrors(ep) || !hasService || service.Spec.Selector != nil {
		return 0, m.remove(ctx, existing)
	}
	plan := planMirror(ep, existing)
	if plan.invalid > 0 {
		m.events.Event(ctx, ep, corev1.EventTypeWarning, "InvalidIPAddress",
			fmt.Sprintf("Skipped %d invalid IP addresses when mirroring to EndpointSlices", plan.invalid))
	}
	if plan.skipped > plan.invalid {
		m.events.Event(ctx, ep, corev1.EventTypeWarning, "TooManyAddressesToMirror",
			fmt.Sprintf("A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped",
				maxMirrored, plan.skipped))
	}
	return 0, m.write(ctx, ep, plan)
}

func (m *mirroring) existing(key objects.Key) []*discoveryv1.EndpointSlice {
	return m.slices.List(key.Namespace, labels.SelectorFromSet(labels.Set{
		discoveryv1.LabelServiceName: key.Name, discoveryv1.LabelManagedBy: mirroringController,
	}))
}

func (m *mirroring) write(ctx context.Context, ep *corev1.Endpoints, plan mirrorPlan) error {
	t := client.Target{Resource: endpointSlices, Namespace: ep.Namespace}
	if ep.DeletionTimestamp == nil {
		for _, s := range plan.create {
			stored, err := m.client.Create(ctx, t, s, metav1.CreateOptions{})
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("create EndpointSlice for Endpoints %s/%s: %w", ep.Namespace, ep.Name, err)
			}
			m.slices.Put(stored.(*discoveryv1.EndpointSlice))
		}
	}
	for _, s := range plan.update {
		t.Name = s.Name
		stored, err := m.client.Update(ctx, t, s, metav1.UpdateOptions{})
		if err != nil {
			return fmt.Errorf("update EndpointSlice %s for Endpoints %s/%s: %w", s.Name, ep.Namespace, ep.Name, err)
		}
		m.slices.Put(stored.(*discoveryv1.EndpointSlice))
	}
	return m.remove(ctx, plan.remove)
}

func (m *mirroring) remove(ctx context.Context, list []*discoveryv1.EndpointSlice) error {
	var failed []error
	for _, s := range list {
		_, err := m.client.Delete(ctx, client.Target{Resource: endpointSlices, Namespace: s.Namespace, Name: s.Name}, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, err)
			continue
		}
		m.slices.Drop(s)
	}
	return errors.Join(failed...)
}
