package client

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Caches is the set of caches that the parts of one component share, like an informer factory. The first request for a
// resource's cache adds it; Run fills all of them. A cache that is added during Run is filled at once.
type Caches struct {
	client Client
	clock  clock.Clock // the cluster's

	mu        sync.Mutex
	informers map[selection]*informer
	start     func(*informer) // not nil during Run
	running   sync.WaitGroup
}

type selection struct {
	resource schema.GroupVersionResource
	labels   string
	fields   string
	metadata bool // only the objects' metadata
}

// NewCaches returns an empty set over c.
func NewCaches(c Client, clk clock.Clock) *Caches {
	return &Caches{client: c, clock: clk, informers: map[selection]*informer{}}
}

// Client returns the client that fills the caches.
func (s *Caches) Client() Client { return s.client }

// CacheOf returns the set's cache of all objects of a resource.
func CacheOf[T objects.Object](s *Caches, resource schema.GroupVersionResource) *Cache[T] {
	return CacheWhere[T](s, resource, metav1.ListOptions{})
}

// CacheWhere returns the set's cache of the objects of a resource that the options' selectors match.
func CacheWhere[T objects.Object](s *Caches, resource schema.GroupVersionResource, opts metav1.ListOptions) *Cache[T] {
	return &Cache[T]{s.informer(selection{resource: resource, labels: opts.LabelSelector, fields: opts.FieldSelector})}
}

// MetadataOf returns the set's cache of the metadata of a resource's objects, without annotations and managed fields. Its
// objects are *metav1.PartialObjectMetadata.
func MetadataOf(s *Caches, resource schema.GroupVersionResource) *Cache[objects.Object] {
	return &Cache[objects.Object]{s.informer(selection{resource: resource, metadata: true})}
}

func (s *Caches) informer(want selection) *informer {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.informers[want]
	if !ok {
		i = newInformer(want.resource, metav1.ListOptions{LabelSelector: want.labels, FieldSelector: want.fields})
		i.sorted = clock.InTurns(s.clock)
		if want.metadata {
			i.transform = metadataOf
		}
		s.informers[want] = i
		if s.start != nil {
			s.start(i)
		}
	}
	return i
}

// Forget ends the caches of a resource that is no longer served. Their content stays, and their subscribers get no more
// changes. The next request for a cache of the resource adds a new one.
func (s *Caches) Forget(resource schema.GroupVersionResource) {
	s.mu.Lock()
	var over []*informer
	for want, i := range s.informers {
		if want.resource == resource {
			over = append(over, i)
			delete(s.informers, want)
			if i.stop != nil {
				i.stop()
			}
		}
	}
	s.mu.Unlock()
	for _, i := range over {
		i.end()
	}
}

// Pods, Nodes and the others below return CacheOf the resource of that name.
func (s *Caches) Pods() *Cache[*corev1.Pod]   { return CacheOf[*corev1.Pod](s, Pods) }
func (s *Caches) Nodes() *Cache[*corev1.Node] { return CacheOf[*corev1.Node](s, Nodes) }
func (s *Caches) Namespaces() *Cache[*corev1.Namespace] {
	return CacheOf[*corev1.Namespace](s, Namespaces)
}
func (s *Caches) Deployments() *Cache[*appsv1.Deployment] {
	return CacheOf[*appsv1.Deployment](s, Deployments)
}
func (s *Caches) ReplicaSets() *Cache[*appsv1.ReplicaSet] {
	return CacheOf[*appsv1.ReplicaSet](s, ReplicaSets)
}

// Run fills the caches and keeps them current until ctx ends. It returns when all their watches have ended.
func (s *Caches) Run(ctx context.Context) error {
	ctx, work := clock.Begin(ctx, s.clock, "caches")
	s.mu.Lock()
	s.start = func(i *informer) {
		ctx, cancel := context.WithCancel(ctx)
		i.stop = cancel
		ctx, work := clock.Begin(ctx, s.clock, "cache of "+i.resource.Resource)
		s.running.Go(func() {
			defer work.End()
			defer cancel()
			s.listAndWatch(ctx, i)
		})
	}
	for _, i := range s.informers {
		s.start(i)
	}
	s.mu.Unlock()
	work.End()
	<-ctx.Done()
	s.mu.Lock()
	s.start = nil
	s.mu.Unlock()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.informers {
		i.shared.Check()
	}
	return nil
}

// WaitSynced waits until every cache that was requested so far has its first list.
func (s *Caches) WaitSynced(ctx context.Context) error {
	s.mu.Lock()
	waiting := slices.Collect(maps.Values(s.informers))
	s.mu.Unlock()
	for _, i := range waiting {
		select {
		case <-i.synced:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// listAndWatch fills one informer and keeps it current. A broken watch is resumed from its revision. If that has expired, the
// resource is listed again. The first retry is immediate, the next ones have backoff.
func (s *Caches) listAndWatch(ctx context.Context, i *informer) {
	const first, last = 50 * time.Millisecond, 5 * time.Second
	machine := clock.Machine(s.clock)
	listed := false
	for pause := time.Duration(0); ctx.Err() == nil; {
		began := machine.Now()
		var err error
		if listed {
			err = i.watch(ctx, s.client)
		} else {
			err = i.relist(ctx, s.client)
		}
		if ctx.Err() != nil {
			return
		}
		if !listed && err == nil {
			listed = true
			continue
		}
		if expired(err) {
			listed = false
		} else if err != nil {
			level := slog.LevelWarn
			if apierrors.IsNotFound(err) {
				level = slog.LevelDebug // no longer served: the owner of the cache will Forget it
			}
			slog.Log(ctx, level, "watch broken, trying again", "resource", i.resource.Resource, "err", err, "pause", pause)
		}
		if machine.Since(began) > last {
			pause = 0
		}
		if clock.Sleep(ctx, machine, pause) != nil {
			return
		}
		pause = min(max(first, 2*pause), last)
	}
}

// expired reports whether a watch must begin with a new list: its revision is compacted, or newer than the server's because
// the server has another store.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) ||
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge)
}
