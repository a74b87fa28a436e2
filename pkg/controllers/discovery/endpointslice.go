package discovery

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/endpointslice"
	"k8s.io/endpointslice/topologycache"
	endpointsutil "k8s.io/endpointslice/util"
	"k8s.io/klog/v2"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/reconcile"
)

var endpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")

const (
	// sliceController is the value of the label endpointslice.kubernetes.io/managed-by.
	sliceController = "endpointslice-controller.k8s.io"

	// maxPerSlice is the default of kube-controller-manager's --max-endpoints-per-slice.
	maxPerSlice = 100

	// A sync handles all pods of a Service. The pause between two syncs of a Service lets one handle the events of many pods, so
	// that a rollout of thousands of pods costs a fifth of a core. Services with a few pods wait for milliseconds.
	maxCooldown    = 500 * time.Millisecond
	cooldownFactor = 4
)

type endpointSlice struct {
	client   client.Client
	events   *client.Recorder
	services *client.Cache[*corev1.Service]
	pods     *client.Cache[*corev1.Pod]
	nodes    *client.Cache[*corev1.Node]
	slices   *client.Cache[*discoveryv1.EndpointSlice]

	tracker  *endpointsutil.EndpointSliceTracker
	triggers *endpointsutil.TriggerTimeTracker
	topology *topologycache.TopologyCache

	enqueue atomic.Pointer[reconcile.Enqueue] // set when the loop starts

	mu   sync.Mutex
	gone map[objects.Key][]*discoveryv1.EndpointSlice // by Service: deleted by others since its last sync
}

// EndpointSlice keeps the EndpointSlices of each Service with a selector equal to the addresses of its pods. Decisions are
// those of k8s.io/endpointslice.
func EndpointSlice(env controller.Env) reconcile.Loop {
	e := &endpointSlice{
		client: env.Client, events: env.Events,
		services: client.CacheOf[*corev1.Service](env.Caches, client.Services), pods: env.Caches.Pods(), nodes: env.Caches.Nodes(),
		slices:  client.CacheOf[*discoveryv1.EndpointSlice](env.Caches, endpointSlices),
		tracker: endpointsutil.NewEndpointSliceTracker(), triggers: endpointsutil.NewTriggerTimeTracker(),
		topology: topologycache.NewTopologyCache(), gone: map[objects.Key][]*discoveryv1.EndpointSlice{},
	}
	return reconcile.Loop{
		Name: "endpointslice",
		Sources: []reconcile.Source{
			reconcile.Watch(e.services), reconcile.Map(e.pods, servicesOf(e.services)), reconcile.Map(e.slices, e.changedByOthers),
			reconcile.Map(e.nodes, nodesChanged), e.keepEnqueue,
		},
		Reconcile:   e.reconcile,
		Workers:     controller.Workers,
		MaxCooldown: maxCooldown, CooldownFactor: cooldownFactor,
	}
}

func (e *endpointSlice) keepEnqueue(_ context.Context, enqueue reconcile.Enqueue) {
	e.enqueue.Store(&enqueue)
}

// changedByOthers maps a change of a slice that this controller has not made to the slice's Service.
func (e *endpointSlice) changedByOthers(ch client.Change[*discoveryv1.EndpointSlice]) []objects.Key {
	var keys []objects.Key
	add := func(s *discoveryv1.EndpointSlice) {
		if name := s.Labels[discoveryv1.LabelServiceName]; name != "" {
			keys = append(keys, objects.Key{Namespace: s.Namespace, Name: name})
		}
	}
	switch {
	case ch.Deleted():
		if ours(ch.Old) && !(e.tracker.Has(ch.Old) && e.tracker.HandleDeletion(ch.Old)) {
			e.rememberGone(ch.Old)
			add(ch.Old)
		}
	case !ch.Added() && ch.Old.Labels[discoveryv1.LabelServiceName] != ch.New.Labels[discoveryv1.LabelServiceName]:
		add(ch.Old)
		add(ch.New)
	case !ch.Added() && ours(ch.Old) != ours(ch.New), ours(ch.New) && e.tracker.ShouldSync(ch.New):
		add(ch.New)
	}
	return keys
}

// rememberGone keeps a slice that another client has deleted until the next sync of its Service. The response to a write may come after the
// event of the deletion; the tracker would then wait for the deleted slice for ever.
func (e *endpointSlice) rememberGone(s *discoveryv1.EndpointSlice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := objects.Key{Namespace: s.Namespace, Name: s.Labels[discoveryv1.LabelServiceName]}
	e.gone[key] = append(e.gone[key], s)
}

// forgetGone takes the deleted slices of a Service from the tracker. No write of the Service is in flight.
func (e *endpointSlice) forgetGone(key objects.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.gone[key] {
		e.tracker.HandleDeletion(s)
	}
	delete(e.gone, key)
}

func ours(s *discoveryv1.EndpointSlice) bool {
	return s.Labels[discoveryv1.LabelManagedBy] == sliceController
}

// topologyKey is enqueued when the nodes' zones or readiness change. No Service has an empty name.
var topologyKey = objects.Key{}

func nodesChanged(ch client.Change[*corev1.Node]) []objects.Key {
	if !ch.Added() && !ch.Deleted() && nodeReady(ch.Old) == nodeReady(ch.New) &&
		ch.Old.Labels[corev1.LabelTopologyZone] == ch.New.Labels[corev1.LabelTopologyZone] {
		return nil
	}
	return []objects.Key{topologyKey}
}

func nodeReady(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (e *endpointSlice) reconcile(ctx context.Context, key objects.Key) (time.Duration, error) {
	if key == topologyKey {
		e.updateTopology()
		return 0, nil
	}
	e.forgetGone(key)
	service, ok := e.services.Get(key)
	if !ok { // the garbage collector deletes its slices
		e.triggers.DeleteService(key.Namespace, key.Name)
		e.tracker.DeleteService(key.Namespace, key.Name)
		return 0, nil
	}
	if !hasEndpoints(service) {
		return 0, nil
	}
	existing := e.existing(service)
	if e.tracker.StaleSlices(service, existing) {
		return 0, fmt.Errorf("the cache of EndpointSlices is behind the slices of Service %s", key)
	}
	pods := inOrder(selectedPods(e.pods, service))
	changed := e.triggers.ComputeEndpointLastChangeTriggerTime(service.Namespace, service, pods)
	if err := e.reconciler(ctx).Reconcile(quiet, service, pods, existing, changed); err != nil {
		e.events.Event(ctx, service, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			fmt.Sprintf("Error updating Endpoint Slices for Service %s: %v", key, err))
		return 0, err
	}
	return 0, nil
}

// quiet is the library's logger, which discards: it logs each node without a zone. Errors are returned and logged by the loop.
var quiet klog.Logger

// reconciler returns the library's reconciler for one sync, whose writes have the context of the sync.
func (e *endpointSlice) reconciler(ctx context.Context) *endpointslice.Reconciler {
	return endpointslice.NewReconciler(sliceWriter{ctx: ctx, client: e.client, slices: e.slices}, nodeLister{e.nodes}, maxPerSlice,
		e.tracker, e.topology, eventRecorder{ctx: ctx, events: e.events}, sliceController,
		endpointslice.WithPreferSameTrafficDistributionEnabled(true))
}

// existing returns the slices of a Service that this controller manages, except those being deleted.
func (e *endpointSlice) existing(service *corev1.Service) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	selector := labels.SelectorFromSet(labels.Set{
		discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: sliceController,
	})
	for _, s := range e.slices.List(service.Namespace, selector) {
		if s.DeletionTimestamp == nil {
			out = append(out, s)
		}
	}
	return out
}

// updateTopology computes the zones' shares of the nodes' CPUs again, and enqueues the Services whose hints deviate too far.
func (e *endpointSlice) updateTopology() {
	e.topology.SetNodes(quiet, e.nodes.List("", nil))
	enqueue := e.enqueue.Load()
	if enqueue == nil {
		return
	}
	for _, key := range e.topology.GetOverloadedServices() {
		namespace, name, _ := strings.Cut(key, "/")
		(*enqueue)(objects.Key{Namespace: namespace, Name: name}, 0)
	}
}
