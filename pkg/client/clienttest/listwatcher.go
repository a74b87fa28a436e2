package clienttest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// ListWatcher is a Client that lists and watches the objects that a test puts into it. Its other methods panic.
type ListWatcher struct {
	client.Client

	mu       sync.Mutex
	revision int
	items    map[schema.GroupVersionResource]map[string]objects.Object
	watches  map[schema.GroupVersionResource][]chan client.Event
}

// NewListWatcher returns a ListWatcher without objects.
func NewListWatcher() *ListWatcher {
	return &ListWatcher{items: map[schema.GroupVersionResource]map[string]objects.Object{}, watches: map[schema.GroupVersionResource][]chan client.Event{}}
}

// WithCaches runs test in a synctest bubble with an empty ListWatcher and running caches on it.
func WithCaches(t *testing.T, test func(s *ListWatcher, caches *client.Caches)) {
	synctest.Test(t, func(t *testing.T) {
		s := NewListWatcher()
		caches := client.NewCaches(s, clock.Real())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- caches.Run(ctx) }()
		synctest.Wait()
		test(s, caches)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// List returns the objects of the target's resource.
func (s *ListWatcher) List(_ context.Context, t client.Target, _ metav1.ListOptions) (client.List, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := client.List{ResourceVersion: strconv.Itoa(s.revision)}
	for _, obj := range s.items[t.Resource] {
		l.Items = append(l.Items, obj)
	}
	return l, nil
}

// Watch returns the changes of the target's resource from now on.
func (s *ListWatcher) Watch(ctx context.Context, t client.Target, _ metav1.ListOptions) iter.Seq2[client.Event, error] {
	events := make(chan client.Event, 100)
	s.mu.Lock()
	s.watches[t.Resource] = append(s.watches[t.Resource], events)
	s.mu.Unlock()
	return func(yield func(client.Event, error) bool) {
		for {
			select {
			case <-ctx.Done():
				s.mu.Lock()
				s.watches[t.Resource] = slices.DeleteFunc(s.watches[t.Resource], func(c chan client.Event) bool { return c == events })
				s.mu.Unlock()
				return
			case ev := <-events:
				if !yield(ev, nil) {
					return
				}
			}
		}
	}
}

// Put writes an event of one object and waits until the bubble has processed it.
func (s *ListWatcher) Put(resource schema.GroupVersionResource, kind watch.EventType, obj objects.Object) {
	defer synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	obj.SetResourceVersion(strconv.Itoa(s.revision))
	if s.items[resource] == nil {
		s.items[resource] = map[string]objects.Object{}
	}
	s.items[resource][obj.GetName()] = obj
	if kind == watch.Deleted {
		delete(s.items[resource], obj.GetName())
	}
	for _, c := range s.watches[resource] {
		c <- client.Event{Type: kind, Object: obj}
	}
}

// Watches returns the number of open watches of a group's resources, as "VERSION/RESOURCE=NUMBER …".
func (s *ListWatcher) Watches(group string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for resource, w := range s.watches {
		if len(w) > 0 && resource.Group == group {
			out = append(out, fmt.Sprintf("%s/%s=%d", resource.Version, resource.Resource, len(w)))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
