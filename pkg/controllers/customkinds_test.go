package controllers

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
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// shelf is a Client that serves lists and watches of what a test puts on it.
type shelf struct {
	client.Client // anything else panics

	mu       sync.Mutex
	revision int
	items    map[schema.GroupVersionResource]map[string]objects.Object
	watches  map[schema.GroupVersionResource][]chan client.Event
}

func (s *shelf) List(_ context.Context, t client.Target, _ metav1.ListOptions) (client.List, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := client.List{ResourceVersion: strconv.Itoa(s.revision)}
	for _, obj := range s.items[t.Resource] {
		l.Items = append(l.Items, obj)
	}
	return l, nil
}

func (s *shelf) Watch(ctx context.Context, t client.Target, _ metav1.ListOptions) iter.Seq2[client.Event, error] {
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

// put stores an object, or takes it away, and waits until all know.
func (s *shelf) put(resource schema.GroupVersionResource, kind watch.EventType, obj objects.Object) {
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

func (s *shelf) watched() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for resource, w := range s.watches {
		if len(w) > 0 && resource != definitions {
			out = append(out, fmt.Sprintf("%s/%s=%d", resource.Version, resource.Resource, len(w)))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// onShelf runs test within a bubble of time, with caches of what is on the shelf.
func onShelf(t *testing.T, test func(s *shelf, caches *client.Caches)) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{items: map[schema.GroupVersionResource]map[string]objects.Object{}, watches: map[schema.GroupVersionResource][]chan client.Event{}}
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

// definition returns an established definition of shirts with those versions, the first of which is stored; one that
// begins with "-" is not served.
func definition(versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "shirts.example.com", UID: "definition"}}
	crd.Spec.Group, crd.Spec.Names.Plural, crd.Spec.Scope = "example.com", "shirts", apiextensionsv1.NamespaceScoped
	crd.Status.AcceptedNames.Kind = "Shirt"
	for i, v := range versions {
		name, hidden := strings.CutPrefix(v, "-")
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: !hidden, Storage: i == 0})
	}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
	return crd
}

func TestCustomKinds(t *testing.T) {
	onShelf(t, func(s *shelf, caches *client.Caches) {
		k := newCustomKinds(caches, clock.Real())
		synctest.Wait()
		var told []string
		follower := kindFollower{
			begin: func(k customKind) { told = append(told, "+"+k.Version) },
			end: func(k customKind, gone bool) {
				told = append(told, "-"+k.Version)
				if gone {
					told = append(told, "gone")
				}
			},
		}
		expect := func(what, want, watched string) {
			t.Helper()
			if got := strings.Join(told, " "); got != want || s.watched() != watched {
				t.Errorf("%s: told %q, want %q; watched %q, want %q", what, got, want, s.watched(), watched)
			}
			told = nil
		}
		young := definition("v1")
		young.Status.Conditions = nil
		s.put(definitions, watch.Added, young)
		k.follow(follower)
		expect("not established", "", "")
		s.put(definitions, watch.Modified, definition("v1"))
		expect("established", "+v1", "v1/shirts=1")
		if n, ok := k.find(schema.GroupKind{Group: "example.com", Kind: "Shirt"}); !ok || n.Plural != "shirts" || n.Cluster {
			t.Errorf("found %+v", n)
		}
		labeled := definition("v1", "v2")
		labeled.Labels = map[string]string{"a": "b"}
		s.put(definitions, watch.Modified, labeled)
		expect("another version is served besides", "", "v1/shirts=1")
		s.put(definitions, watch.Modified, definition("v2", "-v1"))
		expect("the version changes", "-v1 +v2", "v2/shirts=1")
		s.put(definitions, watch.Modified, definition("-v2", "-v1"))
		expect("no version is served", "-v2", "")
		s.put(definitions, watch.Modified, definition("-v2", "v1"))
		expect("one that is not stored", "+v1", "v1/shirts=1")
		var late []string
		k.follow(kindFollower{begin: func(k customKind) { late = append(late, k.Plural) }, end: func(customKind, bool) {}})
		if len(late) != 1 {
			t.Errorf("who comes late is told of %q", late)
		}
		again := definition("v1")
		again.UID = "another"
		s.put(definitions, watch.Modified, again)
		expect("made anew in a moment", "-v1 gone +v1", "v1/shirts=1")
		s.put(definitions, watch.Deleted, again.DeepCopy())
		expect("just deleted", "", "v1/shirts=1")
		if _, ok := k.find(schema.GroupKind{Group: "example.com", Kind: "Shirt"}); ok {
			t.Error("found what is gone")
		}
		s.put(definitions, watch.Added, definition("v1"))
		expect("made anew soon after", "-v1 gone +v1", "v1/shirts=1")
		time.Sleep(2 * linger) // by the clock of synctest, which takes none
		expect("still there", "", "v1/shirts=1")
		s.put(definitions, watch.Deleted, definition("v1"))
		time.Sleep(2 * linger) // by the clock of synctest, which takes none
		synctest.Wait()
		expect("deleted", "-v1 gone", "")
	})
}

// owned returns an object whose owner is that of a kind in the group example.com.
func owned(name, ownerKind, owner string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "ns", UID: types.UID(name),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: ownerKind, Name: owner, UID: types.UID(owner)}},
	}}
}

// TestOwnersKindComesAndGoes: who waits for an owner's kind is looked at when it comes, and nobody has to be asked about
// owners whose kind went.
func TestOwnersKindComesAndGoes(t *testing.T) {
	onShelf(t, func(s *shelf, caches *client.Caches) {
		g := newGarbageCollector(Env{Client: s, Caches: caches, Clock: clock.Real(), custom: newCustomKinds(caches, clock.Real())})
		var mu sync.Mutex
		var woken []string
		wake := func(key objects.Key, _ uint64) {
			mu.Lock()
			defer mu.Unlock()
			woken = append(woken, key.Name)
		}
		maps := objects.Names{Version: "v1", Kind: "ConfigMap", Plural: "configmaps"}
		g.watch(maps, client.CacheOf[objects.Object](caches, maps.GVR()))(t.Context(), wake)
		g.watchCustom(t.Context(), wake)
		synctest.Wait()
		dependent := owned("map", "Shirt", "blue")
		if got, err := g.ask(t.Context(), dependent.OwnerReferences[0], dependent); got != unknown || err != nil {
			t.Fatalf("before the kind is served: %v %v", got, err)
		}
		s.put(maps.GVR(), watch.Added, dependent)
		shirts := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "shirts"}
		shirt := owned("blue", "Coat", "red")
		shirt.OwnerReferences[0].APIVersion = "example.com/v1"
		s.put(shirts, watch.Added, shirt)
		woken = nil
		s.put(definitions, watch.Added, definition("v1"))
		if slices.Sort(woken); !slices.Equal(woken, []string{"blue", "map"}) {
			t.Errorf("when the kind comes %q are looked at", woken)
		}
		if f, ok := g.find("blue"); !ok || f.resource != shirts {
			t.Errorf("found %+v", f)
		}
		if g.unlisted() {
			t.Error("there is still something to list")
		}
		woken = nil
		s.put(definitions, watch.Deleted, definition("v1"))
		s.put(shirts, watch.Deleted, shirt.DeepCopy()) // the news of which is late
		if slices.Sort(woken); !slices.Equal(woken, []string{"map", "red"}) {
			t.Errorf("when an owner goes %q are looked at", woken)
		}
		if got, err := g.ask(t.Context(), dependent.OwnerReferences[0], dependent); got != gone || err != nil {
			t.Errorf("after its kind is gone: %v %v", got, err)
		}
		elsewhere := owned("map", "Shirt", "blue")
		elsewhere.Namespace = "another"
		if got, err := g.ask(t.Context(), elsewhere.OwnerReferences[0], elsewhere); got != unknown || err != nil {
			t.Errorf("from another namespace: %v %v", got, err)
		}
		held := owned("held", "Coat", "red")
		held.Finalizers = []string{"example.org/wait"}
		s.put(shirts, watch.Added, held)
		lost := owned("lost", "Coat", "red")
		s.put(shirts, watch.Added, lost)
		time.Sleep(2 * linger) // by the clock of synctest, which takes none
		synctest.Wait()
		for owner, want := range map[string]state{"lost": gone, "held": unknown} {
			dependent := owned("map", "Shirt", owner)
			if got, err := g.ask(t.Context(), dependent.OwnerReferences[0], dependent); got != want || err != nil {
				t.Errorf("%s, of which no news has come: %v %v", owner, got, err)
			}
		}
		other := owned("map", "Shirt", "green") // which nobody has seen going
		if got, err := g.ask(t.Context(), other.OwnerReferences[0], other); got != unknown || err != nil {
			t.Errorf("of the same kind: %v %v", got, err)
		}
	})
}
