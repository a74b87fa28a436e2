package verbs_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// delayedStore is a store of several servers, from the view of one of them: its watches deliver commits only while the gate is open.
type delayedStore struct {
	store.Store
	gate       sync.Mutex    // held: closed
	headCalled chan struct{} // receives each call of Head
	written    chan struct{} // receives each write, also a failed one
}

func newLagging(s store.Store) *delayedStore {
	return &delayedStore{Store: s, headCalled: make(chan struct{}, 1), written: make(chan struct{}, 1)}
}

func (l *delayedStore) Watch(ctx context.Context, prefix string, from store.Revision) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		for b, err := range l.Store.Watch(ctx, prefix, from) {
			l.gate.Lock()
			l.gate.Unlock() //nolint:staticcheck // only to pass it
			if !yield(b, err) {
				return
			}
		}
	}
}

func (l *delayedStore) Head(ctx context.Context) (store.Revision, error) {
	signal(l.headCalled)
	return l.Store.Head(ctx)
}

func (l *delayedStore) Write(ctx context.Context, ops ...store.Op) ([]store.Revision, error) {
	defer signal(l.written)
	return l.Store.Write(ctx, ops...)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// closeGate closes the gate: from then on the server over l does not see the writes of other servers.
func (l *delayedStore) closeGate() {
	l.gate.Lock()
	for _, c := range []chan struct{}{l.headCalled, l.written} {
		select {
		case <-c:
		default:
		}
	}
}

// result is the result of a write.
type result struct {
	obj runtime.Object
	err error
}

// openGate makes a write while the gate is closed, opens the gate when wait returns, and returns the result of the write.
func (l *delayedStore) openGate(t *testing.T, wait <-chan struct{}, write func() (runtime.Object, error)) result {
	t.Helper()
	out := make(chan result, 1)
	go func() {
		obj, err := write()
		out <- result{obj, err}
	}()
	select {
	case <-wait:
	case a := <-out:
		t.Errorf("returned before the gate was opened: %v", a.err)
		out <- a
	}
	l.gate.Unlock()
	return <-out
}

func TestWriteContinuesAfterClientDisconnects(t *testing.T) {
	l := newLagging(memory.New())
	s := serve(t, l)
	service := func(name, ip string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	create(t, s, services, service("first", ""))

	ctx, cancel := context.WithCancel(t.Context())
	l.closeGate()
	leave := make(chan struct{})
	go func() {
		<-l.written
		cancel()
		close(leave)
	}()
	a := l.openGate(t, leave, func() (runtime.Object, error) {
		return s.Create(ctx, services, service("second", "10.96.7.7"), metav1.CreateOptions{})
	})
	if a.err != nil {
		t.Errorf("create: %v", a.err)
	}
	_, err := s.Create(t.Context(), services, service("third", "10.96.7.7"), metav1.CreateOptions{})
	wantError(t, err, 422, "provided IP is already allocated")
}

func TestUnchangedObjectWrittenByAnotherServer(t *testing.T) {
	st := memory.New()
	l := newLagging(st)
	s, other := serve(t, l), serve(t, st)
	create(t, s, configMaps, newConfigMap("x"))
	made := get[*corev1.ConfigMap](t, s, in(configMaps, "x")) // which fills the cache

	l.closeGate()
	changed := made.DeepCopy()
	changed.Data["k"] = "another"
	if _, err := other.Update(t.Context(), in(configMaps, "x"), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	back := made.DeepCopy()
	back.ResourceVersion = ""
	a := l.openGate(t, l.headCalled, func() (runtime.Object, error) {
		return s.Update(t.Context(), in(configMaps, "x"), back, metav1.UpdateOptions{})
	})
	if a.err != nil {
		t.Fatal(a.err)
	}
	if got := get[*corev1.ConfigMap](t, other, in(configMaps, "x")); got.Data["k"] != "v" {
		t.Errorf("the acknowledged write is lost: %v", got.Data)
	}
}

func TestPatchOfScaleRetriesConflicts(t *testing.T) {
	st := memory.New()
	l := newLagging(st)
	s, other := serve(t, l), serve(t, st)
	create(t, s, deployments, newDeployment("web"))
	get[*appsv1.Deployment](t, s, in(deployments, "web")) // which fills the cache
	patch := func(c client.Client, sub, text string) (runtime.Object, error) {
		return c.Patch(t.Context(), in(deployments, "web").Sub(sub), client.Patch{Type: types.MergePatchType, Data: []byte(text)}, metav1.PatchOptions{})
	}

	l.closeGate()
	if _, err := patch(other, "", `{"metadata":{"labels":{"a":"b"}}}`); err != nil {
		t.Fatal(err)
	}
	a := l.openGate(t, l.headCalled, func() (runtime.Object, error) { return patch(s, "scale", `{"spec":{"replicas":3}}`) })
	if a.err != nil {
		t.Error(a.err)
	}
}

func TestUpdateExtendsEventTTL(t *testing.T) {
	st := memory.New()
	l := newLagging(st)
	s, other := serve(t, l), serve(t, st)
	events := client.Target{Resource: client.Events, Namespace: "default"}
	create(t, s, events, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "default"},
		LastTimestamp: metav1.NewTime(s.clock.Now()),
	})
	if _, err := s.List(t.Context(), events, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}

	l.closeGate()
	seen := client.Patch{Type: types.MergePatchType, Data: []byte(`{"count":2,"lastTimestamp":"2026-01-02T05:04:05Z"}`)}
	if _, err := other.Patch(t.Context(), in(events, "e"), seen, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	again := time.NewTicker(10 * time.Millisecond) // expireEvents may not wait for the clock yet
	defer again.Stop()
	for swept := false; !swept; {
		s.clock.Step(2 * time.Hour)
		select {
		case <-l.written:
			swept = true
		case <-again.C:
		}
	}
	l.gate.Unlock()
	get[*corev1.Event](t, other, in(events, "e"))
}
