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
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
)

// eventually polls until cond holds.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
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

// cutter is a proxy before a server that can cut all its connections.
type cutter struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
}

func newCutter(t testing.TB, e *apiservertest.Env) *cutter {
	t.Helper()
	to, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{}
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

func (c *cutter) seen() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.requests...)
}

func TestInformerSurvivesDisconnects(t *testing.T) {
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(media, func(t *testing.T) {
			e := apiservertest.New(t)
			proxy := newCutter(t, e)
			conf := rest.CopyConfig(e.AdminConfig)
			conf.ContentType, conf.AcceptContentTypes = media, media
			direct := clientset(t, conf).CoreV1().ConfigMaps("default")
			through := rest.CopyConfig(conf)
			through.Host, through.TLSClientConfig = proxy.URL, rest.TLSClientConfig{}
			ctx, cancel := context.WithCancel(testContext(t))
			defer cancel()
			for i := range 3 {
				if _, err := direct.Create(ctx, configMap(fmt.Sprintf("before-%d", i)), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			factory := informers.NewSharedInformerFactoryWithOptions(clientset(t, through), 0, informers.WithNamespace("default"))
			informer := factory.Core().V1().ConfigMaps().Informer()
			factory.Start(ctx.Done())
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				t.Fatal("the informer does not sync")
			}
			if n := len(informer.GetStore().ListKeys()); n != 3 {
				t.Fatalf("synced with %d objects, want 3", n)
			}
			for _, uri := range proxy.seen() {
				if u, err := url.Parse(uri); err != nil || u.Query().Get("sendInitialEvents") != "true" {
					t.Errorf("the informer had to ask otherwise than by a watch-list: %s", uri)
				}
			}
			if _, err := direct.Create(ctx, configMap("during"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the informer sees a change", func() bool { return len(informer.GetStore().ListKeys()) == 4 })
			proxy.CloseClientConnections()
			if _, err := direct.Create(ctx, configMap("after"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the informer sees what was made after the cut", func() bool { return len(informer.GetStore().ListKeys()) == 5 })
			if err := direct.Delete(ctx, "before-0", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the informer sees the delete", func() bool { return len(informer.GetStore().ListKeys()) == 4 })
			cancel()
			factory.Shutdown()
		})
	}
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
