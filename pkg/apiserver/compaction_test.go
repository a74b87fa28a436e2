package apiserver_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// TestInformerSurvivesCompaction disconnects an informer, changes objects, compacts the store, and connects the
// informer to another server over the same store. Its resourceVersion is expired, so it lists again.
func TestInformerSurvivesCompaction(t *testing.T) {
	state := memory.New()
	withState := func(cfg *apiserver.Config) { cfg.Store = keptOpen{state} }
	first := apiservertest.New(t, withState)
	var serving atomic.Pointer[http.Handler] // nil: no server is running
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := serving.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		// After TooManyRequests the informer watches again from its last resourceVersion. After other errors it lists
		// again.
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(proxy.Close)
	var gone atomic.Int32 // responses that report an expired resourceVersion
	serve := func(e *apiservertest.Env) {
		h := http.Handler(countGone(e, &gone))
		serving.Store(&h)
	}
	serve(first)
	through := rest.CopyConfig(first.AdminConfig)
	through.Host, through.TLSClientConfig = proxy.URL, rest.TLSClientConfig{}
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	direct := clientset(t, first.AdminConfig).CoreV1().ConfigMaps("default")
	for _, name := range []string{"stays", "goes"} {
		if _, err := direct.Create(ctx, configMap(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(clientset(t, through), 0, informers.WithNamespace("default"))
	informer := factory.Core().V1().ConfigMaps().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer does not sync")
	}

	// The informer resumes a watch that has delivered an event, and lists again after one that has not.
	if _, err := direct.Create(ctx, configMap("during"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the informer receives a change", func() bool {
		_, seen, _ := informer.GetStore().GetByKey("default/during")
		return seen
	})

	serving.Store(nil)
	proxy.CloseClientConnections()
	if err := direct.Delete(ctx, "goes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := direct.Create(ctx, configMap("comes"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	head, err := state.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := state.Compact(ctx, head); err != nil {
		t.Fatal(err)
	}
	serve(apiservertest.New(t, withState))
	eventually(t, "the informer has the current objects", func() bool {
		_, goes, _ := informer.GetStore().GetByKey("default/goes")
		_, comes, _ := informer.GetStore().GetByKey("default/comes")
		_, stays, _ := informer.GetStore().GetByKey("default/stays")
		return !goes && comes && stays
	})
	if gone.Load() == 0 {
		t.Error("no response reported that the informer's revision is too old: the test tests nothing")
	}
	cancel()
	factory.Shutdown()
}

// keptOpen is a store that outlives its servers.
type keptOpen struct{ store.Store }

func (keptOpen) Close() error { return nil }

// countGone passes requests to a server's own handler and counts the 410 responses, including error events of a watch.
func countGone(e *apiservertest.Env, gone *atomic.Int32) http.HandlerFunc {
	to, _ := url.Parse(e.URL) // the test server's own URL
	return func(w http.ResponseWriter, r *http.Request) {
		r.Host = to.Host
		e.Server.Handler().ServeHTTP(&goneCounter{ResponseWriter: w, gone: gone}, r)
	}
}

type goneCounter struct {
	http.ResponseWriter
	gone *atomic.Int32
}

// Write counts a Status with code 410, in a response or in an event of a watch.
func (g *goneCounter) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("Expired")) {
		g.gone.Add(1)
	}
	return g.ResponseWriter.Write(b)
}

// Flush forwards what a watch has written.
func (g *goneCounter) Flush() { g.ResponseWriter.(http.Flusher).Flush() }

// Unwrap lets the server reach the connection.
func (g *goneCounter) Unwrap() http.ResponseWriter { return g.ResponseWriter }
