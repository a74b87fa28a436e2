package apiserver_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/apiserver/internal/cache"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/store"
	"github.com/minikctl/minikctl/pkg/store/badger"
	"github.com/minikctl/minikctl/pkg/store/memory"
)

// TestWatchFarBehind starts a server on a store of 60,000 revisions, and watches from the first one. A watch of
// Secrets, a tenth of the changes, succeeds in bounded memory. A watch of ConfigMaps, the remaining changes, fails.
func TestWatchFarBehind(t *testing.T) {
	t.Run("memory", func(t *testing.T) { testWatchFarBehind(t, memory.New()) })
	t.Run("badger", func(t *testing.T) {
		s, err := badger.Open(badger.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		testWatchFarBehind(t, s)
	})
}

func testWatchFarBehind(t *testing.T, s store.Store) {
	const rounds, secrets, maps, most = 120, 50, 450, 8 << 20
	first := writeRounds(t, s, rounds, secrets, maps)
	e := apiservertest.New(t, func(cfg *apiserver.Config) { cfg.Store = s })
	c := e.Client("watcher")
	from := metav1.ListOptions{ResourceVersion: fmt.Sprint(uint64(first))}
	before, largest, got, last := liveHeap(), 0, 0, ""
	for ev, err := range c.Watch(testContext(t), client.Target{Resource: client.Secrets}, from) {
		if err != nil {
			t.Fatalf("after %d Secrets: %v", got, err)
		}
		obj := ev.Object.(*corev1.Secret)
		if want := fmt.Sprint("round ", (got+secrets)/secrets); string(obj.Data["round"]) != want {
			t.Fatalf("Secret %d (%s, after %s) is of round %q, want %q", got, obj.ResourceVersion, last, obj.Data["round"], want)
		}
		last = obj.ResourceVersion
		if got++; got%500 == 1 {
			largest = max(largest, liveHeap()-before)
		}
		if got == (rounds-1)*secrets {
			break
		}
	}
	if largest > most {
		t.Errorf("the watch holds %d bytes, want %d at most", largest, most)
	}
	for _, err := range c.Watch(testContext(t), client.Target{Resource: client.ConfigMaps}, from) {
		if !apierrors.IsResourceExpired(err) {
			t.Errorf("a watch of the ConfigMaps: got error %v, want 410", err)
		}
		break
	}
}

// writeRounds writes every object once in each round, and returns the revision at the end of the first.
func writeRounds(t *testing.T, s store.Store, rounds, secrets, maps int) (first store.Revision) {
	t.Helper()
	for round := range rounds {
		var ops []store.Op
		add := func(kind, resource string, n int, obj objects.Object) {
			obj.SetNamespace("default")
			obj.SetName(fmt.Sprint("x", n))
			obj.SetUID(types.UID(fmt.Sprint(kind, n)))
			value, err := cache.Encode(schema.GroupVersionKind{Version: "v1", Kind: kind}, obj)
			if err != nil {
				t.Fatal(err)
			}
			ops = append(ops, store.Op{Key: cache.Prefix(schema.GroupResource{Resource: resource}) + fmt.Sprint("default/x", n), Value: value})
		}
		data := map[string][]byte{"round": fmt.Append(nil, "round ", round), "rest": []byte(strings.Repeat("v", 2<<10))}
		for n := range secrets {
			add("Secret", "secrets", n, &corev1.Secret{Data: data})
		}
		for n := range maps {
			add("ConfigMap", "configmaps", n, &corev1.ConfigMap{Data: map[string]string{"round": fmt.Sprint(round)}})
		}
		revs, err := s.Write(t.Context(), ops...)
		if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = revs[len(revs)-1]
		}
	}
	return first
}

func liveHeap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
