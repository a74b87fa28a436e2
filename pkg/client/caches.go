package client

import (
	"context"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// Caches is the set of local copies that the parts of one component share: the first to ask for a resource adds its
// cache, and Run fills them all. A cache that is asked for while Run is on is filled at once.
type Caches struct {
	client Client
	clock  clock.Clock

	mu      sync.Mutex
	caches  map[selection]cache
	start   func(cache) // set while Run is on
	running sync.WaitGroup
}

type selection struct {
	resource schema.GroupVersionResource
	labels   string
	fields   string
}

// cache is a Cache with its type erased.
type cache interface {
	run(ctx context.Context, c Client) error
	Resource() schema.GroupVersionResource
	Synced() <-chan struct{}
}

// NewCaches returns an empty set over c.
func NewCaches(c Client, clk clock.Clock) *Caches {
	return &Caches{client: c, clock: clk, caches: map[selection]cache{}}
}

// Client returns the client that the caches are filled through.
func (s *Caches) Client() Client { return s.client }

// CacheOf returns the set's cache of a resource, all of it.
func CacheOf[T objects.Object](s *Caches, resource schema.GroupVersionResource) *Cache[T] {
	return CacheWhere[T](s, resource, metav1.ListOptions{})
}

// CacheWhere returns the set's cache of what the options' selectors take of a resource.
func CacheWhere[T objects.Object](s *Caches, resource schema.GroupVersionResource, opts metav1.ListOptions) *Cache[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	want := selection{resource, opts.LabelSelector, opts.FieldSelector}
	if c, ok := s.caches[want]; ok {
		return c.(*Cache[T])
	}
	c := newCache[T](resource, metav1.ListOptions{LabelSelector: opts.LabelSelector, FieldSelector: opts.FieldSelector})
	s.caches[want] = c
	if s.start != nil {
		s.start(c)
	}
	return c
}

// Pods, Nodes and the others below are CacheOf the resource of that name.
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

// Run keeps the caches current until ctx ends, and returns when all their watches have ended.
func (s *Caches) Run(ctx context.Context) error {
	s.mu.Lock()
	s.start = func(c cache) {
		s.running.Go(func() { s.keep(ctx, c) })
	}
	for _, c := range s.caches {
		s.start(c)
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.start = nil
	s.mu.Unlock()
	s.running.Wait()
	return nil
}

// WaitSynced waits until every cache asked for so far has its first list.
func (s *Caches) WaitSynced(ctx context.Context) error {
	s.mu.Lock()
	waiting := make([]cache, 0, len(s.caches))
	for _, c := range s.caches {
		waiting = append(waiting, c)
	}
	s.mu.Unlock()
	for _, c := range waiting {
		select {
		case <-c.Synced():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// keep runs one cache, listing again after each error: at once when the server has only forgotten the revision, with
// growing pauses when it cannot be reached.
func (s *Caches) keep(ctx context.Context, c cache) {
	const first, last = 50 * time.Millisecond, 5 * time.Second
	for pause := first; ctx.Err() == nil; {
		began := s.clock.Now()
		err := c.run(ctx, s.client)
		if ctx.Err() != nil {
			return
		}
		if expired(err) {
			continue
		}
		if s.clock.Since(began) > last {
			pause = first
		}
		slog.WarnContext(ctx, "watch broken, listing again", "resource", c.Resource().Resource, "err", err, "pause", pause)
		if clock.Sleep(ctx, s.clock, pause) != nil {
			return
		}
		pause = min(2*pause, last)
	}
}
