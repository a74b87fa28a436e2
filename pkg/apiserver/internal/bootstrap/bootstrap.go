// Package bootstrap owns the objects that every cluster has: the system namespaces, the Service kubernetes, default roles
// and bindings, priority classes, flow schemas and priority levels, APIServices, the ServiceCIDR and its IPAddresses,
// the ConfigMap extension-apiserver-authentication, the default StorageClass where pods run for real, and the definition of kwok's Stages where pods are simulated.
//
// These defaults are compiled in or derived from other objects. Store shows them as if they were stored, until a client
// or loop writes them (store.go). So a read never writes, never waits for a write, and works while the store is
// read-only. Loops (loop.go) write in the background what must be stored or kept up to date.
package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/feature"
	"github.com/minikctl/minikctl/pkg/objects/networking"
	"github.com/minikctl/minikctl/pkg/objects/storage"
	"github.com/minikctl/minikctl/pkg/store"
)

var ingressClasses = networkingv1.SchemeGroupVersion.WithResource("ingressclasses")

var storageClasses = storagev1.SchemeGroupVersion.WithResource("storageclasses")

// Agent is the user agent of the API server's own writes.
const Agent = "kube-apiserver"

// Config is the input of New.
type Config struct {
	Store            store.Store
	Resources        []objects.Resource // defaults of other resources are left out
	Clock            clock.Clock
	Source           *clock.Source
	PKI              *pki.PKI
	ServiceAddresses netip.Prefix
	DirClass         bool // the cluster has the default StorageClass of the directory provisioner
	IngressClass     bool // the cluster has its own IngressClass

	Stages bool // the cluster has the definition of kwok's Stages

	Features feature.Gates // which the default roles depend on

	Port     func() int32                 // returns the port of the HTTPS listener
	Host     func() string                // returns its address, without the port
	Versions func() []schema.GroupVersion // returns the versions that the server serves itself
}

// Access is the loops' access to the API.
type Access struct {
	Reader stage.Reader
	Client func(agent string) client.Client // as the API server itself
}

// Bootstrap serves the defaults of one cluster.
type Bootstrap struct {
	config  Config
	store   *Store
	rows    map[schema.GroupResource]*objects.Resource
	tracker *track.Tracker
	cluster types.UID   // of the namespace kube-system
	created metav1.Time // its creation time
	access  Access      // set by Run

	repairs     *repairLog    // set by Run
	rangeEvents *onceReporter // set by Run

	repairsDue, trackingDue, leasesDue *loopTimer

	trackingMade time.Time // when this process has created the ConfigMap of the token tracking; zero: not yet

	system, roles, flow, services, addresses, trust, tokens, leases *loop
	apiServices                                                     apiServices
}

// New reads the identity of the cluster from the store and returns its defaults.
func New(ctx context.Context, cfg Config) (*Bootstrap, error) {
	b := &Bootstrap{config: cfg, store: newStore(cfg.Store), rows: map[schema.GroupResource]*objects.Resource{}, tracker: track.New(cfg.Clock)}
	for i := range cfg.Resources {
		b.rows[cfg.Resources[i].Names.GR()] = &cfg.Resources[i]
	}
	if err := b.identify(ctx); err != nil {
		return nil, err
	}
	b.newLoops()
	b.addDefaults()
	return b, nil
}

// Store returns the store with the defaults.
func (b *Bootstrap) Store() *Store { return b.store }

// identify reads the UID and the creation time of kube-system, from which those of the defaults are derived.
func (b *Bootstrap) identify(ctx context.Context) error {
	b.cluster, b.created = b.config.Source.UID(), metav1.NewTime(b.config.Clock.Now().Truncate(time.Second))
	row := b.rows[client.Namespaces.GroupResource()]
	if row == nil {
		return nil
	}
	e, err := b.config.Store.Get(ctx, cache.StoreKey(row.Names.GR(), objects.Key{Name: metav1.NamespaceSystem}), 0)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the namespace %s: %w", metav1.NamespaceSystem, err)
	}
	obj, err := cache.Decode(row, e.Value)
	if err != nil {
		return nil //nolint:nilerr // the cache reports it; the cluster is served with another identity until it is deleted
	}
	b.cluster, b.created = obj.GetUID(), obj.GetCreationTimestamp()
	return nil
}

// uid returns the UID of a default. It is the same after a restart.
func (b *Bootstrap) uid(key string) types.UID {
	if key == cache.StoreKey(client.Namespaces.GroupResource(), objects.Key{Name: metav1.NamespaceSystem}) {
		return b.cluster
	}
	space, err := uuid.Parse(string(b.cluster))
	if err != nil {
		space = uuid.NewSHA1(uuid.Nil, []byte(b.cluster))
	}
	return types.UID(uuid.NewSHA1(space, []byte(key)).String())
}

// virtual is a default object with its status.
type virtual struct {
	object objects.Object
	status *status // nil: as the resource's Prepare sets it
}

// status is the initial status of a default, with the field manager that owns it.
type status struct {
	manager string
	fields  map[string]any
}

// add adds the defaults of a resource, where the resource is served.
func (b *Bootstrap) add(gvr schema.GroupVersionResource, read func(), list func(context.Context) ([]virtual, error)) {
	row := b.rows[gvr.GroupResource()]
	if row == nil {
		return
	}
	b.store.add(gvr.GroupResource(), read, func(ctx context.Context) (map[string][]byte, error) {
		all, err := list(ctx)
		if err != nil {
			return nil, err
		}
		out := make(map[string][]byte, len(all))
		for _, v := range all {
			key, value, err := b.encode(row, v)
			if err != nil {
				return nil, err
			}
			out[key] = value
		}
		return out, nil
	})
}

// addDefaults lists the resources that have defaults.
func (b *Bootstrap) addDefaults() {
	b.add(client.Namespaces, nil, namespaces)
	b.add(client.PriorityClasses, nil, priorityClasses)
	b.add(client.Services, nil, b.kubernetesService)
	b.add(client.EndpointSlices, nil, b.kubernetesSlice)
	b.add(endpoints, nil, b.kubernetesEndpoints)
	for _, gvr := range roleResources {
		b.add(gvr, nil, func(context.Context) ([]virtual, error) { return b.rolesOf(gvr), nil })
	}
	b.add(priorityLevels, nil, levels)
	b.add(flowSchemas, nil, b.flowSchemas)
	b.add(apiServicesResource, b.services.notify, b.apiServiceObjects)
	b.add(serviceRanges, b.addresses.notify, b.serviceRange)
	b.add(ipAddresses, b.addresses.notify, b.ipAddresses)
	b.add(client.ConfigMaps, nil, b.authenticationConfig)
	if g := b.store.groups[cache.Prefix(client.ConfigMaps.GroupResource())]; g != nil {
		g.only = cache.StoreKey(client.ConfigMaps.GroupResource(), authentication) // it costs a key, which few clusters use
	}
	if b.config.Stages {
		b.add(definitions, nil, b.stageDefinition)
	}
	if b.config.IngressClass {
		b.add(ingressClasses, nil, func(context.Context) ([]virtual, error) {
			return defaultsOf([]*networkingv1.IngressClass{networking.OwnIngressClass()}), nil
		})
	}
	if b.config.DirClass {
		b.add(storageClasses, nil, func(context.Context) ([]virtual, error) {
			return defaultsOf([]*storagev1.StorageClass{storage.DirClass()}), nil
		})
	}
}

// encode returns the stored form of a default, with its key.
func (b *Bootstrap) encode(row *objects.Resource, v virtual) (string, []byte, error) {
	obj := v.object
	gvk := row.Names.GVK()
	key := cache.StoreKey(row.Names.GR(), objects.Key{Namespace: obj.GetNamespace(), Name: obj.GetName()})
	row.Default(obj)
	if err := b.tracker.Update(track.Write{Resource: row, Manager: Agent}, nil, obj); err != nil {
		return "", nil, err
	}
	obj.SetUID(b.uid(key))
	obj.SetCreationTimestamp(b.created)
	row.Prepare(obj, nil)
	if s := v.status; s != nil {
		patch := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": obj.GetName()}, "status": s.fields}}
		patch.SetGroupVersionKind(gvk)
		var err error
		if obj, err = b.tracker.Apply(track.Write{Resource: row, Subresource: "status", Manager: s.manager}, obj, patch, true); err != nil {
			return "", nil, err
		}
	}
	fields := obj.GetManagedFields()
	for i := range fields {
		fields[i].Time = &b.created
	}
	obj.SetManagedFields(fields)
	obj.SetResourceVersion("")
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	value, err := cache.Encode(gvk, obj)
	return key, value, err
}

// defaultsOf returns objects as defaults.
func defaultsOf[T objects.Object](list []T) []virtual {
	out := make([]virtual, 0, len(list))
	for _, obj := range list {
		out = append(out, virtual{object: obj})
	}
	return out
}

// systemNamespaces are the namespaces of every cluster.
var systemNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, metav1.NamespaceDefault}
