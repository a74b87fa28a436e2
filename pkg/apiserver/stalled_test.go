package apiserver_test

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/measured"
	"github.com/minikctl/minikctl/pkg/internal/unread"
	"github.com/minikctl/minikctl/pkg/store/badger"
)

// stalled is a client that reads no response.
type stalled struct {
	*unread.Conn
	t *testing.T
}

func newStalled(t *testing.T, e *apiservertest.Env) stalled {
	t.Helper()
	conf, err := rest.TLSConfigFor(e.AdminConfig)
	if err != nil {
		t.Fatal(err)
	}
	conf.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(e.URL, "https://"), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c, err := unread.New(conn, apiservertest.AdminToken)
	if err != nil {
		t.Fatal(err)
	}
	return stalled{c, t}
}

// get sends a request and returns when its response has begun.
func (s stalled) get(path string, headers ...string) {
	s.t.Helper()
	if err := s.Get(path, headers...); err != nil {
		s.t.Fatal(err)
	}
	<-s.Begun
}

// largeMaps creates ConfigMaps of 900 KB.
func largeMaps(t *testing.T, e *apiservertest.Env, n int) {
	t.Helper()
	for i := range n {
		m := configMap(fmt.Sprint("large-", i))
		m.Data = map[string]string{"k": strings.Repeat("x", 900_000)}
		if _, err := e.Client("test").Create(testContext(t), client.Target{Resource: client.ConfigMaps, Namespace: "default"}, m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStalledWatch opens watches whose client never reads: each ends half a minute after it has something to send. Idle
// watches stay open.
func TestStalledWatch(t *testing.T) {
	clk, metrics := testclock.NewFakeClock(time.Now()), prometheus.NewRegistry()
	e := apiservertest.New(t, func(c *apiserver.Config) { c.Clock, c.Metrics = clk, metrics })
	largeMaps(t, e, 1)
	s := newStalled(t, e)
	s.get("/api/v1/configmaps?watch=1")
	s.get("/api/v1/pods?watch=1") // there are none
	clk.Step(25 * time.Second)
	if n := running(t, metrics, "watch"); n != 2 {
		t.Fatalf("%d watches run after 25 s", n)
	}
	for deadline := time.Now().Add(time.Minute); running(t, metrics, "watch") > 1; clk.Step(time.Second) {
		if time.Now().After(deadline) {
			t.Fatal("the watch of a client that reads nothing has not ended")
		}
	}
	<-s.Reset
	clk.Step(time.Hour / 4)
	if n := running(t, metrics, "watch"); n != 1 {
		t.Errorf("%d watches run, want the one without events", n)
	}
}

// updateLarge updates the n ConfigMaps of largeMaps several times, until the logs have dropped the first of these changes, whose revision it
// returns. The writes are too few for a compaction of the store, whose buffers of up to 250 MB would be measured, too.
func updateLarge(t *testing.T, e *apiservertest.Env, n int) (first string) {
	t.Helper()
	for i := range 28 {
		m := configMap(fmt.Sprint("large-", i%n))
		m.Data = map[string]string{"k": strings.Repeat(fmt.Sprint(i%10), 900_000)}
		target := client.Target{Resource: client.ConfigMaps, Namespace: "default", Name: m.Name}
		obj, err := e.Client("test").Update(testContext(t), target, m, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = obj.(*corev1.ConfigMap).ResourceVersion
		}
	}
	return first
}

// TestStalledWatchesShareMemory opens 300 watches of two large objects whose client never reads, and measures what they hold. Watches from an
// old revision share nothing, but few of them read it at a time.
func TestStalledWatchesShareMemory(t *testing.T) {
	measured.Only(t)
	const watches, streams = 300, 100 // streams of a connection
	for _, c := range []struct {
		path string
		old  bool  // from an old revision
		most int64 // bytes
	}{
		{path: "/api/v1/configmaps?watch=1", most: 48 << 20},
		{path: "/api/v1/namespaces/default/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", most: 48 << 20},
		{path: "/api/v1/configmaps?watch=1&resourceVersion=", old: true, most: 96 << 20},
	} {
		s, err := badger.Open(badger.Config{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		e := apiservertest.New(t, func(cfg *apiserver.Config) { cfg.Store = s })
		largeMaps(t, e, 2)
		if c.old {
			c.path += updateLarge(t, e, 2)
		}
		before := memoryInUse()
		for range watches / streams {
			s := newStalled(t, e)
			for range streams {
				s.get(c.path)
			}
		}
		time.Sleep(2 * time.Second) // until all of them have encoded what they send
		held := memoryInUse() - before
		t.Logf("%s: %d watches hold %d MB", c.path, watches, held>>20)
		if held > c.most {
			t.Errorf("%s: %d watches hold %d bytes, more than %d", c.path, watches, held, c.most)
		}
	}
}
