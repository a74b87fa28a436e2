package verbs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// collect reads a watch until n events or its end.
func collect(ctx context.Context, c client.Client, in client.Target, opts metav1.ListOptions, n int) ([]client.Event, error) {
	var out []client.Event
	for ev, err := range c.Watch(ctx, in, opts) {
		if err != nil {
			return out, err
		}
		if out = append(out, ev); len(out) == n {
			break
		}
	}
	return out, nil
}

func describe(events []client.Event) []string {
	var out []string
	for _, ev := range events {
		out = append(out, string(ev.Type)+" "+ev.Object.GetName())
	}
	return out
}

// Sixteen writers increment a counter in one object by compare-and-swap. Watches that begin at any version see each later
// version once and in order.
func TestEveryWatchReceivesEveryVersion(t *testing.T) {
	t.Run("memory", func(t *testing.T) { everyVersion(t, memory.New()) })
	t.Run("badger", func(t *testing.T) { everyVersion(t, onDisk(t, t.TempDir())) })
}

// onDisk opens a durable store, which is closed after the engine on it has ended.
func onDisk(t testing.TB, dir string) *badger.Store {
	t.Helper()
	st, err := badger.Open(badger.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func everyVersion(t *testing.T, st store.Store) {
	s := serve(t, st)
	first := create(t, s, configMaps, newConfigMap("n"))
	const writers, rounds = 16, 25
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()

	var watchers, all sync.WaitGroup
	seen := make([][]string, 8)
	for i := range seen {
		watchers.Go(func() {
			events, err := collect(ctx, s, configMaps, metav1.ListOptions{ResourceVersion: first.ResourceVersion}, writers*rounds)
			if err != nil {
				t.Errorf("watch: %v", err)
			}
			for _, ev := range events {
				seen[i] = append(seen[i], ev.Object.(*corev1.ConfigMap).Data["n"])
			}
		})
	}
	for range writers {
		all.Go(func() {
			for range rounds {
				if err := countUp(ctx, s); err != nil {
					t.Errorf("count up: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
	watchers.Wait()
	for i, values := range seen {
		if len(values) != writers*rounds {
			t.Fatalf("watch %d saw %d versions", i, len(values))
		}
		for j, v := range values {
			if v != strconv.Itoa(j+1) {
				t.Fatalf("watch %d: version %d has value %s", i, j, v)
			}
		}
	}
}

func countUp(ctx context.Context, c client.Client) error {
	for {
		obj, err := c.Get(ctx, in(configMaps, "n"), metav1.GetOptions{})
		if err != nil {
			return err
		}
		next := obj.(*corev1.ConfigMap).DeepCopy()
		n, _ := strconv.Atoi(next.Data["n"])
		next.Data["n"] = strconv.Itoa(n + 1)
		_, err = c.Update(ctx, in(configMaps, "n"), next, metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

func TestWatchKinds(t *testing.T) {
	s := serve(t, memory.New())
	create(t, s, configMaps, newConfigMap("a"))
	yes := true
	cases := []struct {
		name string
		opts metav1.ListOptions
		want []string
	}{
		{"no version: state, then changes", metav1.ListOptions{}, []string{"ADDED a", "ADDED b"}},
		{"any version", metav1.ListOptions{ResourceVersion: "0"}, []string{"ADDED a", "ADDED b"}},
		{"initial events with a bookmark", metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: "NotOlderThan", AllowWatchBookmarks: true},
			[]string{"ADDED a", "BOOKMARK ", "ADDED b"}},
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got []client.Event
			for ev, err := range s.Watch(ctx, configMaps, c.opts) {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, ev); len(got) == len(c.want)-1 {
					create(t, s, configMaps, newConfigMap("b"))
				}
				if len(got) == len(c.want) {
					break
				}
			}
			if got := describe(got); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, ev := range got {
				if ev.Type == watch.Bookmark && ev.Object.GetAnnotations()["k8s.io/initial-events-end"] != "true" {
					t.Error("bookmark without annotation")
				}
			}
			if _, err := s.Delete(ctx, in(configMaps, "b"), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The first read of a resource runs concurrently with writes: the watch after it neither misses nor repeats an event.
func TestFirstReadDuringWrites(t *testing.T) {
	for range 5 {
		s := serve(t, memory.New())
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		const writers, each = 8, 20
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				for i := range each {
					obj := newConfigMap(fmt.Sprintf("w%d-%d", w, i))
					out, err := s.Create(ctx, configMaps, obj, metav1.CreateOptions{})
					if err != nil || out.(*corev1.ConfigMap).ResourceVersion == "" {
						t.Errorf("create: %v", err)
					}
				}
			})
		}
		for range 3 {
			all.Go(func() {
				seen := map[string]bool{}
				events, err := collect(ctx, s, configMaps, metav1.ListOptions{}, writers*each)
				if err != nil {
					t.Errorf("watch: %v", err)
				}
				for _, ev := range events {
					if seen[ev.Object.GetName()] {
						t.Errorf("%s is sent twice", ev.Object.GetName())
					}
					seen[ev.Object.GetName()] = true
				}
			})
		}
		all.Wait()
	}
}

// A watch without initial events does not show existing objects.
func TestWatchFromNow(t *testing.T) {
	s := serve(t, memory.New())
	create(t, s, configMaps, newConfigMap("a"))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	go func() { // there is no signal that the watch has begun, so write until it ends
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := s.Create(ctx, configMaps, newConfigMap(fmt.Sprint("b", i)), metav1.CreateOptions{}); err != nil {
				return
			}
		}
	}()
	no := false
	events, err := collect(ctx, s, configMaps, metav1.ListOptions{SendInitialEvents: &no, ResourceVersionMatch: "NotOlderThan"}, 1)
	if err != nil || len(events) != 1 || events[0].Object.GetName() == "a" {
		t.Errorf("got %q %v", describe(events), err)
	}
}

func TestSelectorTransitions(t *testing.T) {
	s := serve(t, memory.New())
	ctx := t.Context()
	list, err := s.List(ctx, configMaps, metav1.ListOptions{LabelSelector: "color=red"})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, configMaps, newConfigMap("a"))
	paint := func(color string) *corev1.ConfigMap {
		out, err := s.Patch(ctx, in(configMaps, "a"), client.Patch{Type: types.MergePatchType,
			Data: fmt.Appendf(nil, `{"metadata":{"labels":{"color":%q}}}`, color)}, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return out.(*corev1.ConfigMap)
	}
	paint("red")
	left := paint("blue")
	paint("red")
	if _, err := s.Delete(ctx, in(configMaps, "a"), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	events, err := collect(ctx, s, configMaps, metav1.ListOptions{LabelSelector: "color=red", ResourceVersion: list.ResourceVersion}, 4)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describe(events), []string{"ADDED a", "DELETED a", "ADDED a", "DELETED a"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	if gone := events[1].Object; gone.GetLabels()["color"] != "red" || gone.GetResourceVersion() != left.ResourceVersion {
		t.Errorf("object that left: %v at %s, want red at %s", gone.GetLabels(), gone.GetResourceVersion(), left.ResourceVersion)
	}
	head, err := s.store.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if rv := events[3].Object.GetResourceVersion(); rv != fmt.Sprint(uint64(head)) {
		t.Errorf("deleted object has version %s, the deletion is %d", rv, head)
	}
}

// The watches of a node's pods read the node's lane (the log of its pods' changes), which may begin after the version
// that they start from.
func TestNodeWatch(t *testing.T) {
	s := serve(t, memory.New())
	ctx := t.Context()
	list, err := s.List(ctx, pods, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	opts := metav1.ListOptions{FieldSelector: "spec.nodeName=n1", ResourceVersion: list.ResourceVersion}
	bind := func(name, node string) {
		t.Helper()
		create(t, s, pods, newPod(name))
		_, err := s.Create(ctx, in(pods, name).Sub("binding"),
			&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Name: node}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	bind("a", "n1")
	bind("b", "n2")
	var got []string
	for ev, err := range s.Watch(ctx, pods, opts) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, string(ev.Type)+" "+ev.Object.GetName()); len(got) == 1 {
			bind("c", "n2") // from here on the watch reads its lane
			bind("d", "n1")
			if _, err := s.Delete(ctx, in(pods, "a"), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
				t.Fatal(err)
			}
		}
		if len(got) == 3 {
			break
		}
	}
	if want := []string{"ADDED a", "ADDED d", "DELETED a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBookmarks(t *testing.T) {
	s := serve(t, memory.New())
	list, err := s.List(t.Context(), configMaps, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made := create(t, s, client.Target{Resource: client.ServiceAccounts, Namespace: "default"}, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "x"}})
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	go func() { // step the clock while the watch waits for it
		for ctx.Err() == nil {
			if s.clock.HasWaiters() {
				s.clock.Step(time.Minute)
			}
		}
	}()
	events, err := collect(ctx, s, configMaps, metav1.ListOptions{ResourceVersion: list.ResourceVersion, AllowWatchBookmarks: true}, 1)
	stop()
	if err != nil || len(events) != 1 || events[0].Type != watch.Bookmark || events[0].Object.GetResourceVersion() != made.ResourceVersion {
		t.Errorf("got %v %v, want a bookmark at %s, which another resource's change has made", events, err, made.ResourceVersion)
	}
}

func TestExpired(t *testing.T) {
	s := serve(t, memory.New())
	ctx := t.Context()
	for i := range 10 {
		create(t, s, configMaps, newConfigMap(fmt.Sprint("x", i)))
	}
	page, err := s.List(ctx, configMaps, metav1.ListOptions{Limit: 4})
	if err != nil || page.Continue == "" || *page.Remaining != 6 {
		t.Fatalf("first page: %+v, %v", page, err)
	}
	last := create(t, s, configMaps, newConfigMap("x55"))
	restarted := serve(t, s.store) // without the change log of the first engine
	head, err := s.store.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.Compact(ctx, head); err != nil {
		t.Fatal(err)
	}
	_, err = collect(ctx, restarted, configMaps, metav1.ListOptions{ResourceVersion: page.ResourceVersion}, 1)
	if !apierrors.IsResourceExpired(err) || err.Error() != fmt.Sprintf("too old resource version: %s (%s)", page.ResourceVersion, last.ResourceVersion) {
		t.Errorf("watch from a compacted version: %v", err)
	}
	_, err = restarted.List(ctx, configMaps, metav1.ListOptions{ResourceVersion: page.ResourceVersion, ResourceVersionMatch: "Exact"})
	wantError(t, err, 410, "The resourceVersion for the provided list is too old.")
	_, err = restarted.List(ctx, configMaps, metav1.ListOptions{Limit: 4, Continue: page.Continue})
	wantError(t, err, 410, "The provided continue parameter is too old to display a consistent list result.")
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().ListMeta.Continue == "" {
		t.Fatal("no token to continue with")
	}
	rest, err := restarted.List(ctx, configMaps, metav1.ListOptions{Limit: 100, Continue: status.Status().ListMeta.Continue})
	if err != nil || len(rest.Items) != 7 {
		t.Errorf("inconsistent rest: %d items, %v", len(rest.Items), err)
	}
	_, err = restarted.List(ctx, configMaps, metav1.ListOptions{Continue: "!"})
	wantError(t, err, 400, "continue key is not valid")
	go func() {
		for ctx.Err() == nil {
			if restarted.clock.HasWaiters() {
				restarted.clock.Step(4 * time.Second)
			}
		}
	}()
	_, err = restarted.Get(ctx, in(configMaps, "x0"), metav1.GetOptions{ResourceVersion: "999999"})
	wantError(t, err, 504, "Too large resource version: 999999, current: ")
}

// The pages of a list show one revision, independent of writes between them.
func TestPagesAreConsistent(t *testing.T) {
	for _, selector := range []string{"", "even=true"} {
		s := serve(t, memory.New())
		ctx := t.Context()
		var want []string
		for i := range 50 {
			obj := newConfigMap(fmt.Sprintf("x%02d", i))
			obj.Labels = map[string]string{"even": fmt.Sprint(i%2 == 0)}
			made := create(t, s, configMaps, obj)
			if selector == "" || i%2 == 0 {
				want = append(want, made.Name+"@"+made.ResourceVersion)
			}
		}
		var got []string
		opts := metav1.ListOptions{Limit: 7, LabelSelector: selector}
		for page := 0; ; page++ {
			l, err := s.List(ctx, configMaps, opts)
			if err != nil {
				t.Fatal(err)
			}
			for _, obj := range l.Items {
				got = append(got, obj.GetName()+"@"+obj.GetResourceVersion())
			}
			if left := len(want) - len(got); selector == "" && left > 0 && *l.Remaining != int64(left) {
				t.Errorf("%d objects remain, remainingItemCount is %d", left, *l.Remaining)
			}
			if opts.Continue = l.Continue; opts.Continue == "" {
				break
			}
			for _, name := range []string{"x05", "x40"} {
				next := newConfigMap(name)
				next.Data["page"] = fmt.Sprint(page)
				if _, err := s.Update(ctx, in(configMaps, name), next, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			create(t, s, configMaps, newConfigMap(fmt.Sprint("y", page)))
			if _, err := s.Delete(ctx, in(configMaps, fmt.Sprintf("x%02d", 49-page)), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("selector %q: got %v, want %v", selector, got, want)
		}
	}
}

// A reader stalls while writes exceed the change log in memory: its watch continues from the store and misses nothing.
func TestSlowWatch(t *testing.T) {
	s := serve(t, memory.New())
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	list, err := s.List(ctx, configMaps, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	big := newConfigMap("big")
	big.Data["k"] = string(make([]byte, 200<<10))
	version := create(t, s, configMaps, big).ResourceVersion
	const n = 100 // of 200 KiB each: more than the change log holds, less than the store's
	seen := 0
	for ev, err := range s.Watch(ctx, configMaps, metav1.ListOptions{ResourceVersion: list.ResourceVersion}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen == 0 {
			for i := range n {
				next := big.DeepCopy()
				next.Data["n"], next.ResourceVersion, next.UID = fmt.Sprint(i), version, ""
				out, err := s.Update(ctx, in(configMaps, "big"), next, metav1.UpdateOptions{})
				if err != nil {
					t.Fatal(err)
				}
				version = out.(*corev1.ConfigMap).ResourceVersion
			}
		} else if got := ev.Object.(*corev1.ConfigMap).Data["n"]; got != fmt.Sprint(seen-1) {
			t.Fatalf("event %d has value %s", seen, got)
		}
		if seen++; seen == n+1 {
			return
		}
	}
	t.Fatalf("the watch ended after %d events: %v", seen, ctx.Err())
}

func TestRestart(t *testing.T) {
	dir := t.TempDir()
	var made *appsv1.Deployment
	var ip string
	t.Run("before", func(t *testing.T) {
		s := serve(t, onDisk(t, dir))
		made = create(t, s, deployments, newDeployment("web"))
		create(t, s, deployments, newDeployment("gone"))
		if _, err := s.Delete(t.Context(), in(deployments, "gone"), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		ip = create(t, s, services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}).Spec.ClusterIP
	})
	again := serve(t, onDisk(t, dir))
	list, err := again.List(t.Context(), deployments, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("after a restart: %v %v", list.Items, err)
	}
	got := list.Items[0].(*appsv1.Deployment)
	got, want := got.DeepCopy(), made.DeepCopy()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("after a restart (-was +is): %s", diff)
	}
	events, err := collect(t.Context(), again, deployments, metav1.ListOptions{ResourceVersion: made.ResourceVersion}, 2)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describe(events), []string{"ADDED gone", "DELETED gone"}; !slices.Equal(got, want) {
		t.Errorf("changes from before the restart: %q", got)
	}
	_, err = again.Create(t.Context(), services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 80}}}}, metav1.CreateOptions{})
	wantError(t, err, 422, "provided IP is already allocated")
}

// Two watches of one name share a lane (the log of that object's changes), which exists until the second ends.
func TestNameWatch(t *testing.T) {
	s := serve(t, memory.New())
	ctx := t.Context()
	first := create(t, s, configMaps, newConfigMap("a"))
	opts := metav1.ListOptions{FieldSelector: "metadata.name=a", ResourceVersion: first.ResourceVersion}
	touch := func(n int) {
		t.Helper()
		for _, name := range []string{"a", "b"} {
			_, err := s.Patch(ctx, in(configMaps, name), client.Patch{Type: types.MergePatchType, Data: fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n)}, metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
	}
	create(t, s, configMaps, newConfigMap("b"))
	touch(0)
	n := 0
	for ev, err := range s.Watch(ctx, configMaps, opts) {
		if err != nil {
			t.Fatal(err)
		}
		if cm := ev.Object.(*corev1.ConfigMap); cm.Name != "a" || cm.Data["n"] != fmt.Sprint(n) {
			t.Fatalf("event %d: %s %v", n, cm.Name, cm.Data)
		}
		if n++; n == 10 {
			break
		}
		touch(n)
		if other, err := collect(ctx, s, configMaps, opts, n); err != nil || len(other) != n {
			t.Fatalf("another watch: %d events, %v", len(other), err)
		}
	}
}

func TestEventsExpire(t *testing.T) {
	s := serve(t, memory.New())
	events := client.Target{Resource: client.Events, Namespace: "default"}
	create(t, s, events, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "e"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "p"},
		FirstTimestamp: metav1.NewTime(s.clock.Now()), LastTimestamp: metav1.NewTime(s.clock.Now()),
	})
	deadline := time.Now().Add(time.Minute)
	for minutes := 0; ; {
		if s.clock.HasWaiters() { // it expires an hour after the first check
			s.clock.Step(time.Minute)
			minutes++
		}
		list, err := s.List(t.Context(), events, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 0 {
			if minutes < 60 {
				t.Errorf("expired after %d minutes", minutes)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the event is still there")
		}
	}
}
