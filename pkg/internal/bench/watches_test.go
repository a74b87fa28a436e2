package bench

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/minikctl/minikctl/pkg/internal/measured"
	"github.com/minikctl/minikctl/pkg/internal/unread"
)

// TestManyWatches opens 5,000 watches of 1,000 ConfigMaps at once, each of which gets all of them, and reads none of
// them. It measures the daemon until a minute after the last one has begun, when those that took nothing have ended.
func TestManyWatches(t *testing.T) {
	measured.Only(t)
	const watches, streams = 5000, 100 // streams of a connection
	c := newCluster(t)
	c.up()
	defer c.purge()
	clients := c.clients()
	c.fill(clients, 1000, 20<<10)
	h := &hostile{cluster: c, config: c.config(), token: c.token(clients, "watcher", false)}
	defer h.closeAll()
	peak := c.peakMemory(time.Minute, func() {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		var begun, reset atomic.Int64
		var wg sync.WaitGroup
		for range watches / streams {
			wg.Go(func() {
				conn, err := h.dialTLS("h2")
				if err != nil {
					t.Error(err)
					return
				}
				client, err := unread.New(conn, h.token)
				for i := 0; err == nil && i < streams; i++ {
					err = client.Get("/api/v1/configmaps?watch=1")
				}
				if err != nil {
					t.Error(err)
					return
				}
				for range streams {
					select {
					case <-client.Begun:
						begun.Add(1)
					case <-client.Reset:
						reset.Add(1)
					case <-ctx.Done():
						return
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d watches have begun, %d were reset", begun.Load(), reset.Load())
	})
	t.Logf("peak: %.0f MiB", peak)
	if peak > mostUnderLoad {
		t.Errorf("%.0f MiB, more than %d", peak, mostUnderLoad)
	}
}

// TestWatchesBehind makes 70,000 changes, and then opens 12 watches from before them at once: of the ConfigMaps that were changed,
// which are too far behind, and of Secrets, which get the few that there are. All have to end by their timeoutSeconds.
func TestWatchesBehind(t *testing.T) {
	measured.Only(t)
	const changes, watches, timeout = 70_000, 12, 20
	c := newCluster(t)
	c.up()
	defer c.purge()
	clients := c.clients()
	c.fill(clients, 100, 4<<10)
	list, err := clients.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.change(clients, changes, 100)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "last"}}
	if _, err := clients.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	peak := c.peakMemory(0, func() {
		var wg sync.WaitGroup
		for i := range watches {
			wg.Go(func() {
				t.Log(watchOnce(t, clients, []string{"configmaps", "secrets"}[i%2], list.ResourceVersion, timeout))
			})
		}
		wg.Wait()
	})
	t.Logf("peak: %.0f MiB", peak)
	if peak > mostUnderLoad {
		t.Errorf("%.0f MiB, more than %d", peak, mostUnderLoad)
	}
}

// watchOnce watches a resource until the watch ends, and describes how it ended.
func watchOnce(t *testing.T, clients kubernetes.Interface, resource, from string, timeout int) string {
	began := time.Now()
	answer, err := clients.CoreV1().RESTClient().Get().AbsPath("/api/v1", resource).Param("watch", "1").Param("resourceVersion", from).
		Param("timeoutSeconds", fmt.Sprint(timeout)).SetHeader("Accept", "application/json").DoRaw(t.Context())
	took := time.Since(began)
	if took > time.Duration(timeout+20)*time.Second {
		t.Errorf("the watch of %s ended after %v, its timeoutSeconds are %d", resource, took, timeout)
	}
	switch events, old := strings.Count(string(answer), `{"type":`), strings.Contains(string(answer), `"code":410`); {
	case resource == "secrets" && (err != nil || old || events == 0):
		t.Errorf("the watch of %s: %d events, %v: %.300s", resource, events, err, answer)
	case resource == "configmaps" && !old && err == nil:
		t.Errorf("the watch of %s: %d events without a 410: %.300s", resource, events, answer)
	default:
		return fmt.Sprintf("%s: %d events, 410: %v, after %v", resource, events, old, took.Round(time.Millisecond))
	}
	return ""
}

// change patches the first of the ConfigMaps that fill has made n times.
func (c *cluster) change(clients kubernetes.Interface, n, objects int) {
	c.b.Helper()
	const workers = 16
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for i := worker; i < n; i += workers {
				patch := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, i)
				if _, err := clients.CoreV1().ConfigMaps("default").Patch(c.b.Context(), fmt.Sprint("m-", i%objects), types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
					c.b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// peakMemory returns the most memory that the daemon takes, in MiB, while do runs and for a time after it.
func (c *cluster) peakMemory(after time.Duration, do func()) float64 {
	ctx, stop := context.WithCancel(c.b.Context())
	peak := make(chan float64)
	go func() {
		most := 0.0
		for ctx.Err() == nil {
			total, _ := c.memory()
			most = max(most, total)
			sleep(ctx, 200*time.Millisecond)
		}
		peak <- most
	}()
	do()
	sleep(ctx, after)
	stop()
	return <-peak
}
