package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// scripted is a Client whose lists and watches return what a test sends.
type scripted struct {
	client.Client // anything else panics

	mu     sync.Mutex
	lists  int
	list   func() (client.List, error)
	from   []string // the start revisions of the watches
	events chan any // client.Event, error (ends the watch) or nil (ends it without one)
}

func (s *scripted) List(context.Context, client.Target, metav1.ListOptions) (client.List, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	return s.list()
}

func (s *scripted) Watch(ctx context.Context, _ client.Target, opts metav1.ListOptions) iter.Seq2[client.Event, error] {
	return func(yield func(client.Event, error) bool) {
		s.mu.Lock()
		s.from = append(s.from, opts.ResourceVersion)
		s.mu.Unlock()
		for {
			select {
			case <-ctx.Done():
				return
			case ev := <-s.events:
				switch ev := ev.(type) {
				case client.Event:
					if !yield(ev, nil) {
						return
					}
				case error:
					yield(client.Event{}, ev)
					return
				default:
					return
				}
			}
		}
	}
}

func (s *scripted) seen() (lists int, from []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists, slices.Clone(s.from)
}

func (s *scripted) listing(rev uint64, pods ...*corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = func() (client.List, error) {
		l := client.List{ResourceVersion: strconv.FormatUint(rev, 10)}
		for _, p := range pods {
			l.Items = append(l.Items, p)
		}
		return l, nil
	}
}

func pod(name string, rev int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: strconv.Itoa(rev),
	}}
}

func event(kind watch.EventType, p *corev1.Pod) client.Event {
	return client.Event{Type: kind, Object: p}
}

// follow runs a cache of pods on s in a synctest bubble, and passes it to test with a log of its notifications.
func follow(t *testing.T, s *scripted, test func(c *client.Cache[*corev1.Pod], observed func() string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.events = make(chan any)
		caches := client.NewCaches(s, clock.Real())
		c := caches.Pods()
		var mu sync.Mutex
		var log string
		c.Subscribe(func(ch client.Change[*corev1.Pod]) {
			if got, ok := c.Get(ch.Key()); ok == ch.Deleted() || ok && got != ch.New {
				t.Errorf("notified of %s before the cache shows it", ch.Key()) // a subscriber may read the cache
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ch.Deleted():
				log += fmt.Sprintf("-%s@%d ", ch.Old.Name, ch.Revision)
			case ch.Added():
				log += fmt.Sprintf("+%s@%d ", ch.New.Name, ch.Revision)
			default:
				log += fmt.Sprintf("~%s@%d ", ch.New.Name, ch.Revision)
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- caches.Run(ctx) }()
		if err := caches.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		test(c, func() string {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			out := log
			log = ""
			return out
		})
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestMain discards the warnings about broken watches, since the tests break many.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

func expect(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestCacheResumesBrokenWatch(t *testing.T) {
	s := &scripted{}
	s.listing(10, pod("a", 5))
	follow(t, s, func(c *client.Cache[*corev1.Pod], observed func() string) {
		expect(t, "first", observed(), "+a@5 ")
		s.events <- event(watch.Modified, pod("a", 11))
		s.events <- errors.New("connection lost")
		s.events <- event(watch.Added, pod("b", 12))
		s.events <- nil
		s.events <- event(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "20"}})
		s.events <- errors.New("connection lost")
		s.events <- event(watch.Deleted, pod("a", 21))
		expect(t, "then", observed(), "~a@11 +b@12 -a@21 ")
		lists, from := s.seen()
		expect(t, "lists", lists, 1)
		expect(t, "watches from", from, "[10 11 12 20]")
		expect(t, "revision", c.Revision(), 21)
	})
}

func TestCacheListsAgainWhenExpired(t *testing.T) {
	s := &scripted{}
	s.listing(10, pod("a", 5), pod("b", 6))
	follow(t, s, func(c *client.Cache[*corev1.Pod], observed func() string) {
		observed()
		s.listing(30, pod("b", 25), pod("c", 28))
		began := time.Now()
		s.events <- apierrors.NewResourceExpired("too old")
		log := observed()
		if log != "~b@25 +c@28 -a@30 " {
			t.Errorf("notified %q", log)
		}
		expect(t, "pause", time.Since(began), time.Duration(0))
		lists, from := s.seen()
		expect(t, "lists", lists, 2)
		expect(t, "watches from", from, "[10 30]")
	})
}

// TestCachePauses: the cache backs off while a server keeps failing.
func TestCachePauses(t *testing.T) {
	s := &scripted{}
	s.listing(10)
	follow(t, s, func(_ *client.Cache[*corev1.Pod], observed func() string) {
		began := time.Now()
		for range 20 {
			s.events <- errors.New("connection refused")
		}
		observed()
		if took := time.Since(began); took < 40*time.Second {
			t.Errorf("20 failures took only %v", took)
		}
	})
}

func TestCachePut(t *testing.T) {
	s := &scripted{}
	s.listing(10, pod("a", 5))
	follow(t, s, func(c *client.Cache[*corev1.Pod], observed func() string) {
		observed()
		c.Put(pod("a", 12)) // the response arrives before the watch event
		expect(t, "put", observed(), "~a@12 ")
		expect(t, "revision after put", c.Revision(), 10) // a watch resumed from a later revision would miss 11
		s.events <- event(watch.Modified, pod("a", 11))
		s.events <- event(watch.Modified, pod("a", 12))
		expect(t, "an object that is not newer", observed(), "")
		s.events <- event(watch.Deleted, pod("a", 13))
		expect(t, "delete", observed(), "-a@13 ")
		c.Put(pod("a", 12)) // late: the watch is already past it
		expect(t, "late put", observed(), "")
		c.Put(pod("b", 14))
		s.events <- event(watch.Added, pod("b", 14))
		expect(t, "put of a new one", observed(), "+b@14 ")
	})
}

func TestCacheDrop(t *testing.T) {
	s := &scripted{}
	s.listing(10, pod("a", 5), pod("b", 6))
	follow(t, s, func(c *client.Cache[*corev1.Pod], observed func() string) {
		observed()
		c.Drop(pod("a", 5))
		expect(t, "drop", observed(), "-a@5 ")
		s.events <- event(watch.Modified, pod("a", 11)) // precedes the delete
		c.Put(pod("a", 11))
		expect(t, "late news", observed(), "")
		s.events <- event(watch.Deleted, pod("a", 12))
		expect(t, "delete of a dropped object", observed(), "")
		again := pod("a", 13)
		again.UID = "another"
		s.events <- event(watch.Added, again)
		expect(t, "a new one of that name", observed(), "+a@13 ")
		c.Drop(pod("a", 5))
		expect(t, "drop of the old one", observed(), "")
		expect(t, "left", len(c.List("ns", nil)), 2)
	})
}

// TestCacheRelistsAfterLowerRevision: the server changes to another store with lower revisions.
func TestCacheRelistsAfterLowerRevision(t *testing.T) {
	s := &scripted{}
	s.listing(1000, pod("a", 900), pod("b", 901))
	follow(t, s, func(c *client.Cache[*corev1.Pod], observed func() string) {
		observed()
		s.listing(10, pod("a", 4))
		tooLarge := apierrors.NewTimeoutError("Too large resource version: 1000, current: 10", 1)
		tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
		s.events <- tooLarge
		expect(t, "notifications", observed(), "~a@4 -b@901 ")
		s.events <- event(watch.Added, pod("c", 11))
		expect(t, "then", observed(), "+c@11 ")
		expect(t, "revision", c.Revision(), 11)
	})
}

func TestCacheIndexesAndNamespaces(t *testing.T) {
	s := &scripted{}
	owned := pod("a", 5)
	owned.OwnerReferences = []metav1.OwnerReference{{UID: "owner", Controller: new(true)}}
	other := pod("b", 6)
	other.Namespace = "elsewhere"
	s.listing(10, owned, other)
	synctest.Test(t, func(t *testing.T) {
		s.events = make(chan any)
		caches := client.NewCaches(s, clock.Real())
		typed, plain := caches.Pods(), client.CacheOf[objects.Object](caches, client.Pods)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- caches.Run(ctx) }()
		if err := caches.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		byName := client.NewIndex(func(p *corev1.Pod) []string { return []string{p.GetName()} })
		plainByName := client.NewIndex(func(o objects.Object) []string { return []string{"plain " + o.GetName()} })
		lists, _ := s.seen()
		expect(t, "lists", lists, 1)
		expect(t, "owned", len(typed.OwnedBy("owner")), 1)
		expect(t, "by name", len(typed.ByIndex(byName, "b")), 1)
		expect(t, "by another index", len(plain.ByIndex(plainByName, "plain b")), 1)
		expect(t, "in a namespace", len(plain.List("elsewhere", nil)), 1)
		moved := owned.DeepCopy()
		moved.OwnerReferences, moved.ResourceVersion = nil, "11"
		s.events <- event(watch.Modified, moved)
		s.events <- event(watch.Deleted, func() *corev1.Pod { p := other.DeepCopy(); p.ResourceVersion = "12"; return p }())
		synctest.Wait()
		expect(t, "orphans", len(typed.OwnedBy("owner")), 0)
		expect(t, "by name, deleted", len(typed.ByIndex(byName, "b")), 0)
		expect(t, "by another index, deleted", len(plain.ByIndex(plainByName, "plain b")), 0)
		expect(t, "in a namespace, deleted", len(plain.List("elsewhere", nil)), 0)
		if _, ok := typed.Get(objects.Key{Namespace: "ns", Name: "absent"}); ok {
			t.Error("got an absent object")
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestCacheOfMetadata: metadata has its own cache, besides that of the whole objects.
func TestCacheOfMetadata(t *testing.T) {
	s := &scripted{}
	p := pod("a", 5)
	p.Labels, p.Annotations, p.Finalizers = map[string]string{"a": "b"}, map[string]string{"long": "text"}, []string{"x/y"}
	p.Spec.NodeName = "n"
	s.listing(10, p)
	synctest.Test(t, func(t *testing.T) {
		s.events = make(chan any)
		caches := client.NewCaches(s, clock.Real())
		c := client.MetadataOf(caches, client.Pods)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- caches.Run(ctx) }()
		if err := caches.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		s.events <- event(watch.Added, pod("b", 11))
		synctest.Wait()
		obj, ok := c.Get(objects.Key{Namespace: "ns", Name: "a"})
		meta, is := obj.(*metav1.PartialObjectMetadata)
		if !ok || !is || meta.UID != p.UID || meta.Labels["a"] != "b" || meta.Finalizers[0] != "x/y" || meta.Annotations != nil {
			t.Errorf("got %+v", obj)
		}
		expect(t, "with the objects of the watch", len(c.List("ns", nil)), 2)
		caches.Pods()
		synctest.Wait()
		if whole, _ := caches.Pods().Get(objects.Key{Namespace: "ns", Name: "a"}); whole == nil || whole.Spec.NodeName != "n" {
			t.Errorf("got %+v", whole)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestForgetEndsWatch: the watch ends, the old cache keeps its objects, and a later request creates a new cache.
func TestForgetEndsWatch(t *testing.T) {
	s := &scripted{}
	s.listing(10, pod("a", 5), pod("b", 6))
	synctest.Test(t, func(t *testing.T) {
		s.events = make(chan any)
		caches := client.NewCaches(s, clock.Real())
		old := caches.Pods()
		observed := 0
		old.Subscribe(func(client.Change[*corev1.Pod]) { observed++ })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- caches.Run(ctx) }()
		if err := caches.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		caches.Forget(client.Pods)
		synctest.Wait()
		old.Put(pod("c", 20))
		expect(t, "in the old one", len(old.List("", nil)), 2)
		expect(t, "notifications", observed, 2)
		select {
		case s.events <- event(watch.Added, pod("d", 21)):
			t.Error("the watch has not ended")
		default:
		}
		again := caches.Pods()
		synctest.Wait()
		expect(t, "in the new one", len(again.List("", nil)), 2)
		s.events <- event(watch.Added, pod("d", 21))
		synctest.Wait()
		expect(t, "and by its watch", len(again.List("", nil)), 3)
		caches.Forget(client.Nodes) // its cache was never requested
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
