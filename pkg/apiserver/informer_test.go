package apiserver_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	metadataclient "k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// eventually polls until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-deadline:
			t.Fatalf("not in time: %s", what)
		case <-tick.C:
		}
	}
}

// breakingProxy is a proxy before a server that can cut all its connections.
type breakingProxy struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
}

func newCutter(t testing.TB, e *apiservertest.Env) *breakingProxy {
	t.Helper()
	to, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := &breakingProxy{}
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // the test's own server
	proxy.FlushInterval = -1
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.requests = append(c.requests, r.URL.RequestURI())
		c.mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *breakingProxy) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.requests...)
}

// informerOf makes an informer of the ConfigMaps of the namespace default.
type informerOf func(t *testing.T, conf *rest.Config) cache.SharedIndexInformer

func typedInformer(media string) informerOf {
	return func(t *testing.T, conf *rest.Config) cache.SharedIndexInformer {
		conf.ContentType, conf.AcceptContentTypes = media, media
		f := informers.NewSharedInformerFactoryWithOptions(clientset(t, conf), resync, informers.WithNamespace("default"))
		return f.Core().V1().ConfigMaps().Informer()
	}
}

var informerKinds = map[string]informerOf{
	"typed, JSON":     typedInformer("application/json"),
	"typed, protobuf": typedInformer("application/vnd.kubernetes.protobuf"),
	"dynamic": func(t *testing.T, conf *rest.Config) cache.SharedIndexInformer {
		c, err := dynamic.NewForConfig(conf)
		if err != nil {
			t.Fatal(err)
		}
		return dynamicinformer.NewFilteredDynamicInformer(c, configMaps, "default", resync, cache.Indexers{}, nil).Informer()
	},
	"metadata": func(t *testing.T, conf *rest.Config) cache.SharedIndexInformer {
		c, err := metadataclient.NewForConfig(conf)
		if err != nil {
			t.Fatal(err)
		}
		return metadatainformer.NewFilteredMetadataInformer(c, configMaps, "default", resync, cache.Indexers{}, nil).Informer()
	},
}

// resync is the resync period of the informers.
const resync = time.Second

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func TestInformerSurvivesDisconnects(t *testing.T) {
	for kind, make := range informerKinds {
		t.Run(kind, func(t *testing.T) {
			e := apiservertest.New(t)
			proxy := newCutter(t, e)
			direct := clientset(t, e.AdminConfig).CoreV1().ConfigMaps("default")
			through := rest.CopyConfig(e.AdminConfig)
			through.Host, through.TLSClientConfig = proxy.URL, rest.TLSClientConfig{}
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			for i := range 3 {
				if _, err := direct.Create(ctx, configMap(fmt.Sprintf("before-%d", i)), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			informer := make(t, through)
			var resynced atomic.Int32
			_, err := informer.AddEventHandlerWithResyncPeriod(cache.ResourceEventHandlerFuncs{UpdateFunc: func(was, is any) {
				if was.(metav1.Object).GetResourceVersion() == is.(metav1.Object).GetResourceVersion() {
					resynced.Add(1)
				}
			}}, resync)
			if err != nil {
				t.Fatal(err)
			}
			ended := runInformer(ctx, informer)
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				t.Fatal("the informer does not sync")
			}
			holds := func(n int) func() bool {
				return func() bool { return len(informer.GetStore().ListKeys()) == n }
			}
			if !holds(3)() {
				t.Fatalf("synced with %v, want 3 objects", informer.GetStore().ListKeys())
			}
			for _, uri := range proxy.seen() {
				if u, err := url.Parse(uri); err != nil || u.Query().Get("sendInitialEvents") != "true" {
					t.Errorf("the informer sent a request other than a watch-list: %s", uri)
				}
			}
			if _, err := direct.Create(ctx, configMap("during"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the informer receives a change", holds(4))
			proxy.CloseClientConnections()
			if _, err := direct.Create(ctx, configMap("after"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the informer receives an object created after the disconnect", holds(5))
			if err := direct.Delete(ctx, "before-0", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the informer receives the delete", holds(4))
			eventually(t, "the informer resyncs", func() bool { return resynced.Load() >= 4 })
			cancel()
			<-ended
		})
	}
}

// runInformer runs an informer until ctx ends. The channel is closed when the informer has ended.
func runInformer(ctx context.Context, i cache.SharedIndexInformer) <-chan struct{} {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.RunWithContext(ctx)
	}()
	return ended
}

func TestWatchEndsAfterItsTime(t *testing.T) {
	e := apiservertest.New(t)
	seconds := int64(1)
	short, err := clientset(t, e.AdminConfig).CoreV1().Pods("").Watch(testContext(t), metav1.ListOptions{TimeoutSeconds: &seconds})
	if err != nil {
		t.Fatal(err)
	}
	for range short.ResultChan() {
		t.Error("an event where nothing happened")
	}
}
