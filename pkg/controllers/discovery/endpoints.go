package discovery

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/endpointslice"
	endpointsutil "k8s.io/endpointslice/util"
	"k8s.io/utils/net"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var endpointsResource = corev1.SchemeGroupVersion.WithResource("endpoints")

const (
	// managedByLabel and endpointController are the label of Endpoints that the controller manages.
	managedByLabel     = "endpoints.kubernetes.io/managed-by"
	endpointController = "endpoint-controller"
)

type endpoints struct {
	client    client.Client
	events    *client.Recorder
	services  *client.Cache[*corev1.Service]
	pods      *client.Cache[*corev1.Pod]
	endpoints *client.Cache[*corev1.Endpoints]
	triggers  *endpointsutil.TriggerTimeTracker
}

// Endpoints keeps the Endpoints of each Service with a selector equal to the addresses of its pods, and deletes Endpoints
// with their Service.
func Endpoints(env controller.Env) reconcile.Loop {
	e := &endpoints{
		client: env.Client, events: env.Events,
		services:  client.CacheOf[*corev1.Service](env.Caches, client.Services),
		pods:      env.Caches.Pods(),
		endpoints: client.CacheOf[*corev1.Endpoints](env.Caches, endpointsResource),
		triggers:  endpointsutil.NewTriggerTimeTracker(),
	}
	return reconcile.Loop{
		Name: "endpoints",
		Sources: []reconcile.Source{
			reconcile.Watch(e.services), reconcile.Map(e.pods, servicesOf(e.services)), reconcile.Map(e.endpoints, deletedEndpoints),
			e.leftover,
		},
		Reconcile:   e.reconcile,
		Workers:     controller.Workers,
		MaxCooldown: maxCooldown, CooldownFactor: cooldownFactor,
	}
}

func deletedEndpoints(ch client.Change[*corev1.Endpoints]) []objects.Key {
	if !ch.Deleted() {
		return nil
	}
	return []objects.Key{ch.Key()}
}

// leftover enqueues the Endpoints that exist at the start, since their Service may have been deleted before. Endpoints that
// a client creates later, possibly before their Service, are not enqueued.
func (e *endpoints) leftover(_ context.Context, enqueue reconcile.Enqueue) {
	for _, ep := range e.endpoints.List("", nil) {
		if _, elects := ep.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]; !elects {
			enqueue(objects.Key{Namespace: ep.Namespace, Name: ep.Name}, 0)
		}
	}
}

func (e *endpoints) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	service, ok := e.services.Get(key)
	if !ok {
		return 0, e.remove(ctx, key)
	}
	if !hasEndpoints(service) {
		return 0, nil
	}
	pods := inOrder(selectedPods(e.pods, service))
	changed := e.triggers.ComputeEndpointLastChangeTriggerTime(service.Namespace, service, pods)
	current, exists := e.endpoints.Get(key)
	if !exists {
		current = &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	}
	subsets := subsetsOf(service, pods)
	if exists && upToDate(current, service, subsets) {
		return 0, nil
	}
	return 0, e.write(ctx, service, desired(current, service, subsets, changed), exists)
}

// remove deletes the Endpoints of a Service that does not exist.
func (e *endpoints) remove(ctx context.Context, key objects.Key) error {
	e.triggers.DeleteService(key.Namespace, key.Name)
	if _, ok := e.endpoints.Get(key); !ok {
		return nil
	}
	_, err := e.client.Delete(ctx, client.In(endpointsResource, key), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (e *endpoints) write(ctx context.Context, service *corev1.Service, ep *corev1.Endpoints, exists bool) error {
	t := client.Target{Resource: endpointsResource, Namespace: ep.Namespace}
	reason, text, send := "FailedToCreateEndpoint", "Failed to create endpoint for service %v/%v: %v", func() (any, error) {
		return e.client.Create(ctx, t, ep, metav1.CreateOptions{})
	}
	if exists {
		t.Name = ep.Name
		reason, text, send = "FailedToUpdateEndpoint", "Failed to update endpoint %v/%v: %v", func() (any, error) {
			return e.client.Update(ctx, t, ep, metav1.UpdateOptions{})
		}
	}
	stored, err := send()
	switch {
	case err == nil:
		e.endpoints.Put(stored.(*corev1.Endpoints))
		return nil
	case !exists && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	}
	e.events.Event(ctx, ep, corev1.EventTypeWarning, reason, fmt.Sprintf(text, service.Namespace, service.Name, err))
	return err
}

// subsetsOf returns the subsets of a Service's pods.
func subsetsOf(service *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	var out []corev1.EndpointSubset
	early := service.Spec.PublishNotReadyAddresses
	add := func(pod *corev1.Pod, address corev1.EndpointAddress, ports ...corev1.EndpointPort) {
		s := corev1.EndpointSubset{Ports: ports}
		if early || endpointsutil.IsPodReady(pod) {
			s.Addresses = []corev1.EndpointAddress{address}
		} else {
			s.NotReadyAddresses = []corev1.EndpointAddress{address}
		}
		out = append(out, s)
	}
	for _, pod := range pods {
		ip := addressOf(service, pod)
		if ip == "" || !endpointsutil.ShouldPodBeInEndpoints(pod, early) {
			continue
		}
		address := corev1.EndpointAddress{IP: ip, NodeName: &pod.Spec.NodeName, TargetRef: &corev1.ObjectReference{
			Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		}}
		if endpointsutil.ShouldSetHostname(pod, service) {
			address.Hostname = pod.Spec.Hostname
		}
		if len(service.Spec.Ports) == 0 && service.Spec.ClusterIP == corev1.ClusterIPNone {
			add(pod, address)
		}
		for i := range service.Spec.Ports {
			p := &service.Spec.Ports[i]
			if number, err := endpointslice.FindPort(pod, p); err == nil {
				add(pod, address, corev1.EndpointPort{Name: p.Name, Port: int32(number), Protocol: p.Protocol, AppProtocol: p.AppProtocol})
			}
		}
	}
	return pack(out)
}

// addressOf returns the pod's first address of the Service's first family, "" if it has none.
func addressOf(service *corev1.Service, pod *corev1.Pod) string {
	var six bool
	switch ip := service.Spec.ClusterIP; {
	case len(service.Spec.IPFamilies) > 0:
		six = service.Spec.IPFamilies[0] == corev1.IPv6Protocol
	case ip != "" && ip != corev1.ClusterIPNone:
		six = net.IsIPv6String(ip)
	default:
		six = net.IsIPv6String(pod.Status.PodIP)
	}
	for _, p := range pod.Status.PodIPs {
		if ip := net.ParseIPSloppy(p.IP); ip != nil && net.IsIPv6(ip) == six {
			return ip.String()
		}
	}
	return ""
}

// upToDate reports whether stored Endpoints need no write.
func upToDate(ep *corev1.Endpoints, service *corev1.Service, subsets []corev1.EndpointSubset) bool {
	addresses := 0
	for _, s := range ep.Subsets {
		addresses += len(s.Addresses) + len(s.NotReadyAddresses)
	}
	_, over := ep.Annotations[corev1.EndpointsOverCapacity]
	if over || addresses > maxAddresses {
		return false
	}
	own := maps.Clone(ep.Labels)
	delete(own, managedByLabel)
	delete(own, corev1.IsHeadlessService)
	return ep.Labels[managedByLabel] == endpointController && maps.Equal(own, service.Labels) &&
		(sameSubsets(ep.Subsets, subsets) || sameSubsets(pack(ep.Subsets), subsets))
}

// desired returns current with the subsets, labels and annotations that it must have.
func desired(current *corev1.Endpoints, service *corev1.Service, subsets []corev1.EndpointSubset, changed time.Time) *corev1.Endpoints {
	ep := current.DeepCopy()
	ep.Subsets = subsets
	ep.Labels = maps.Clone(service.Labels)
	if ep.Labels == nil {
		ep.Labels = map[string]string{}
	}
	delete(ep.Labels, corev1.IsHeadlessService)
	if ip := service.Spec.ClusterIP; ip == "" || ip == corev1.ClusterIPNone {
		ep.Labels[corev1.IsHeadlessService] = ""
	}
	ep.Labels[managedByLabel] = endpointController
	if ep.Annotations == nil {
		ep.Annotations = map[string]string{}
	}
	delete(ep.Annotations, corev1.EndpointsLastChangeTriggerTime)
	if !changed.IsZero() {
		ep.Annotations[corev1.EndpointsLastChangeTriggerTime] = changed.UTC().Format(time.RFC3339Nano)
	}
	delete(ep.Annotations, corev1.EndpointsOverCapacity)
	if truncate(ep.Subsets) {
		ep.Annotations[corev1.EndpointsOverCapacity] = "truncated"
	}
	return ep
}
