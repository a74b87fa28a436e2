package clienttest

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/objects"
)

// change creates, updates and deletes an object, so that a watch gets three events.
func (s suite) change(name string, labels map[string]string) {
	s.Helper()
	made := create(s, client.ConfigMaps, s.configMap(name, labels))
	next := made.DeepCopy()
	next.Data["k"] = "2"
	if _, err := s.Update(s.ctx, s.maps(name), next, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	if _, err := s.Delete(s.ctx, s.maps(name), metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

// revision returns the current resourceVersion, from an empty list.
func (s suite) revision() string {
	s.Helper()
	list, err := s.List(s.ctx, s.maps(""), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return list.ResourceVersion
}

// collect watches until n events other than bookmarks arrive, and returns them as "ADDED a ".
func (s suite) collect(opts metav1.ListOptions, n int) (text string, last client.Event) {
	s.Helper()
	for ev, err := range s.Watch(s.ctx, s.maps(""), opts) {
		if err != nil {
			s.Fatalf("watch after %q: %v", text, err)
		}
		if ev.Type == watch.Bookmark {
			continue
		}
		if _, ok := ev.Object.(*corev1.ConfigMap); !ok {
			s.Fatalf("watched a %T", ev.Object)
		}
		text += fmt.Sprintf("%s %s ", ev.Type, ev.Object.GetName())
		if last, n = ev, n-1; n == 0 {
			return text, last
		}
	}
	s.Fatalf("the watch ended after %q: %v", text, s.ctx.Err())
	return "", last
}

func testWatch(s suite) {
	from := s.revision()
	s.change("a", nil)
	got, last := s.collect(metav1.ListOptions{ResourceVersion: from}, 3)
	if got != "ADDED a MODIFIED a DELETED a " {
		s.Errorf("watched %q", got)
	}
	before, _ := strconv.ParseUint(from, 10, 64)
	after, err := strconv.ParseUint(last.Object.GetResourceVersion(), 10, 64)
	if err != nil || after < before+3 {
		s.Errorf("the delete has the version %q, the watch began at %s", last.Object.GetResourceVersion(), from)
	}
	create(s, client.ConfigMaps, s.configMap("b", nil))
	if got, _ := s.collect(metav1.ListOptions{}, 1); got != "ADDED b " {
		s.Errorf("a watch without a version begins with %q", got)
	}
}

func testWatchSelector(s suite) {
	from := s.revision()
	red, blue := map[string]string{"color": "red"}, map[string]string{"color": "blue"}
	create(s, client.ConfigMaps, s.configMap("other", blue))
	made := create(s, client.ConfigMaps, s.configMap("a", red))
	leaves := made.DeepCopy()
	leaves.Labels = blue
	out, err := s.Update(s.ctx, s.maps("a"), leaves, metav1.UpdateOptions{})
	comes := must[*corev1.ConfigMap](s, out, err).DeepCopy()
	comes.Labels = red
	if _, err := s.Update(s.ctx, s.maps("a"), comes, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	got, _ := s.collect(metav1.ListOptions{ResourceVersion: from, LabelSelector: "color=red"}, 3)
	if got != "ADDED a DELETED a ADDED a " {
		s.Errorf("watched %q", got)
	}
	got, _ = s.collect(metav1.ListOptions{ResourceVersion: from, FieldSelector: "metadata.name=other"}, 1)
	if got != "ADDED other " {
		s.Errorf("watched %q", got)
	}
}

func testWatchResume(s suite) {
	from := s.revision()
	s.change("a", nil)
	_, first := s.collect(metav1.ListOptions{ResourceVersion: from}, 1)
	got, second := s.collect(metav1.ListOptions{ResourceVersion: first.Object.GetResourceVersion()}, 1)
	if got != "MODIFIED a " {
		s.Errorf("resumed with %q", got)
	}
	if got, _ = s.collect(metav1.ListOptions{ResourceVersion: second.Object.GetResourceVersion()}, 1); got != "DELETED a " {
		s.Errorf("resumed with %q", got)
	}
}

func testWatchInitial(s suite) {
	create(s, client.ConfigMaps, s.configMap("a", nil))
	create(s, client.ConfigMaps, s.configMap("b", nil))
	yes := true
	opts := metav1.ListOptions{
		SendInitialEvents: &yes, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	}
	got := ""
	for ev, err := range s.Watch(s.ctx, s.maps(""), opts) {
		if err != nil {
			s.Fatal(err)
		}
		if ev.Type != watch.Bookmark {
			got += fmt.Sprintf("%s %s ", ev.Type, ev.Object.GetName())
		} else if ev.Object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			if got != "ADDED a ADDED b " {
				s.Errorf("initial events: %q", got)
			}
			if ev.Object.GetResourceVersion() == "" {
				s.Error("the bookmark after the initial events has no version")
			}
			create(s, client.ConfigMaps, s.configMap("c", nil))
		}
		if got == "ADDED a ADDED b ADDED c " {
			return
		}
	}
	s.Errorf("the watch ended after %q", got)
}

func testWatchErrors(s suite) {
	fail := func(t client.Target, opts metav1.ListOptions) error {
		for _, err := range s.Watch(s.ctx, t, opts) {
			return err
		}
		return nil
	}
	err := fail(s.maps(""), metav1.ListOptions{ResourceVersion: "soon"})
	s.wantError("watch from no revision", err, func(err error) bool { return !apierrors.IsNotFound(err) })
	err = fail(client.Target{Resource: resourceName{Group: "nowhere.example.org", Version: "v1", Resource: "things"}}, metav1.ListOptions{})
	s.wantError("watch a resource that is not served", err, apierrors.IsNotFound)
}

func testWatchEnds(s suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	from := s.revision()
	create(s, client.ConfigMaps, s.configMap("a", nil))
	for _, err := range s.Watch(ctx, s.maps(""), metav1.ListOptions{ResourceVersion: from}) {
		if err != nil {
			s.Errorf("a watch whose context ended fails with %v", err)
			break
		}
		cancel() // ends the sequence, without an error
	}
	cancel()
}

// testCache: a Cache on the client converges to the server's objects.
func testCache(s suite) {
	create(s, client.ConfigMaps, s.configMap("a", nil))
	ctx, cancel := context.WithCancel(s.ctx)
	caches := client.NewCaches(s.Client, clock.Real())
	maps := client.CacheOf[*corev1.ConfigMap](caches, client.ConfigMaps)
	ended := make(chan error, 1)
	go func() { ended <- caches.Run(ctx) }()
	if err := caches.WaitSynced(s.ctx); err != nil {
		s.Fatal(err)
	}
	seen := make(chan string, 100)
	maps.Subscribe(func(ch client.Change[*corev1.ConfigMap]) {
		if ch.Key().Namespace == s.namespace {
			seen <- fmt.Sprintf("%s new=%t gone=%t", ch.Key().Name, ch.Added(), ch.Deleted())
		}
	})
	if _, ok := maps.Get(objects.Key{Namespace: s.namespace, Name: "a"}); !ok {
		s.Error("the synced cache lacks an existing object")
	}
	s.change("b", nil)
	for _, want := range []string{"a new=true gone=false", "b new=true gone=false", "b new=false gone=false", "b new=false gone=true"} {
		select {
		case got := <-seen:
			if got != want {
				s.Errorf("the cache reported %q, want %q", got, want)
			}
		case <-s.ctx.Done():
			s.Fatalf("the cache never reported %q", want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		s.Error(err)
	}
}
