package clustertest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/minikctl/minikctl/pkg/store/badger"
)

// cutter proxies a client's connections to a daemon, and breaks them as networks do.
type cutter struct {
	address, to string
	passing     sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil: connections are refused
	open     []net.Conn
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	c := &cutter{address: "127.0.0.1:0", to: to}
	c.listen(t)
	t.Cleanup(func() {
		c.cut()
		c.passing.Wait()
	})
	return c
}

// listen accepts connections until the next cut.
func (c *cutter) listen(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", c.address)
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listener, c.address = l, l.Addr().String()
	c.passing.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			c.passing.Go(func() { c.pass(l, in) })
		}
	})
}

func (c *cutter) pass(l net.Listener, in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer out.Close()
	if !c.hold(l, in) {
		return
	}
	c.passing.Go(func() {
		_, _ = io.Copy(out, in) // until either side closes
		out.Close()
	})
	_, _ = io.Copy(in, out)
}

// hold records a connection for the next cut, and reports whether l is still open.
func (c *cutter) hold(l net.Listener, conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listener == l {
		c.open = append(c.open, conn)
	}
	return c.listener == l
}

// cut closes all connections and refuses new ones.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listener != nil {
		c.listener.Close()
		c.listener = nil
	}
	for _, conn := range c.open {
		conn.Close()
	}
	c.open = nil
}

// resync is the informers' resync period.
const resync = time.Second

// informed compares a namespace's ConfigMaps in the API with those in informers of each kind of client.
type informed struct {
	*testing.T
	maps      typedcorev1.ConfigMapInterface
	informers map[string]cache.SharedIndexInformer
	resynced  map[string]*atomic.Int64
}

// newInformed starts the informers with the configuration through. It reads ConfigMaps with direct.
func newInformed(t *testing.T, direct, through *rest.Config) informed {
	t.Helper()
	typed := func(media string) cache.SharedIndexInformer {
		conf := rest.CopyConfig(through)
		conf.ContentType, conf.AcceptContentTypes = media, media
		f := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(conf), resync, informers.WithNamespace("default"))
		return f.Core().V1().ConfigMaps().Informer()
	}
	kind := corev1.SchemeGroupVersion.WithResource("configmaps")
	i := informed{
		T: t, maps: kubernetes.NewForConfigOrDie(direct).CoreV1().ConfigMaps("default"), resynced: map[string]*atomic.Int64{},
		informers: map[string]cache.SharedIndexInformer{
			"typed, JSON":     typed("application/json"),
			"typed, protobuf": typed("application/vnd.kubernetes.protobuf"),
			"dynamic":         dynamicinformer.NewFilteredDynamicInformer(dynamic.NewForConfigOrDie(through), kind, "default", resync, cache.Indexers{}, nil).Informer(),
			"metadata":        metadatainformer.NewFilteredMetadataInformer(metadata.NewForConfigOrDie(through), kind, "default", resync, cache.Indexers{}, nil).Informer(),
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	for name, informer := range i.informers {
		n := new(atomic.Int64)
		i.resynced[name] = n
		_, err := informer.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{UpdateFunc: func(was, is any) {
			if was.(metav1.Object).GetResourceVersion() == is.(metav1.Object).GetResourceVersion() {
				n.Add(1)
			}
		}}, resync)
		if err != nil {
			t.Fatal(err)
		}
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	return i
}

// make creates a ConfigMap.
func (i informed) make(name string) {
	i.Helper()
	if _, err := i.maps.Create(i.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		i.Fatal(err)
	}
}

// waitCurrent waits until every informer's cache has the same ConfigMaps and versions as the API.
func (i informed) waitCurrent(when string) {
	i.Helper()
	for name, informer := range i.informers {
		i.until(fmt.Sprintf("%s: the informer (%s) has the current objects", when, name), func() (string, bool) {
			want, got := i.versions(), map[string]string{}
			for _, obj := range informer.GetStore().List() {
				m := obj.(metav1.Object)
				got[m.GetName()] = m.GetResourceVersion()
			}
			return fmt.Sprintf("it has %v, want %v", got, want), maps.Equal(got, want)
		})
	}
}

// waitResync waits until every informer has resynced.
func (i informed) waitResync() {
	i.Helper()
	for name, n := range i.resynced {
		enough := n.Load() + int64(len(i.versions()))
		i.until(fmt.Sprintf("the informer (%s) resyncs", name), func() (string, bool) {
			got := n.Load()
			return fmt.Sprintf("notified %d times, want %d", got, enough), got >= enough
		})
	}
}

// versions returns the resource versions of the ConfigMaps by name.
func (i informed) versions() map[string]string {
	i.Helper()
	list, err := i.maps.List(i.Context(), metav1.ListOptions{})
	if err != nil {
		i.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range list.Items {
		out[m.Name] = m.ResourceVersion
	}
	return out
}

// until polls cond, which returns the current state and whether it is the expected one.
func (i informed) until(what string, cond func() (string, bool)) {
	i.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(60 * time.Second); ; {
		state, ok := cond()
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-end:
			i.Fatalf("not in time: %s: %s", what, state)
		}
	}
}

// TestInformersSurviveDaemonRestart breaks the connections of informers, then kills the daemon, compacts its store and
// starts it again. The versions of the informers are expired then, and they list again by themselves.
func TestInformersSurviveDaemonRestart(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.minikctl("up", "-d")
	direct := h.config()
	at, err := url.Parse(direct.Host)
	if err != nil {
		t.Fatal(err)
	}
	network := newCutter(t, at.Host)
	through := rest.CopyConfig(direct)
	through.Host = "https://" + network.address
	i := newInformed(t, direct, through)
	for _, name := range []string{"stays", "goes", "falls"} {
		i.make(name)
	}
	i.waitCurrent("at first")

	network.cut()
	network.listen(t)
	i.make("after-the-cut")
	if err := i.maps.Delete(t.Context(), "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	i.waitCurrent("after a cut")

	list, err := i.maps.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	network.cut()
	i.make("unseen")
	if err := i.maps.Delete(t.Context(), "falls", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.kill()
	h.compact()
	h.minikctl("up", "-d")
	i.expired(list.ResourceVersion)
	network.listen(t)
	i.waitCurrent("after a crash")
	i.make("last")
	i.waitCurrent("at last")
	i.waitResync()
}

// compact compacts a daemon's store to the current objects. The daemon must not run.
func (h *home) compact() {
	h.t.Helper()
	s, err := badger.Open(badger.Config{Dir: h.paths().Store})
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			h.t.Error(err)
		}
	}()
	head, err := s.Head(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	if err := s.Compact(h.t.Context(), head); err != nil {
		h.t.Fatal(err)
	}
}

// expired checks that a watch from a version returns 410.
func (i informed) expired(version string) {
	i.Helper()
	w, err := i.maps.Watch(i.Context(), metav1.ListOptions{ResourceVersion: version})
	if err == nil {
		defer w.Stop()
		ev := <-w.ResultChan()
		if ev.Type != watch.Error {
			i.Fatalf("the watch has not ended: %v", ev)
		}
		err = apierrors.FromObject(ev.Object)
	}
	if !apierrors.IsResourceExpired(err) {
		i.Fatalf("a watch from version %s: %v, want that it is too old", version, err)
	}
}
