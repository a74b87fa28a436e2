package apiserver_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	testclock "k8s.io/utils/clock/testing"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/internal/measured"
)

// stalled is an HTTP/2 connection whose streams have a window of zero bytes, so that the server can't send any body.
type stalled struct {
	t      *testing.T
	framer *http2.Framer

	mu    sync.Mutex // guards writes to framer
	block bytes.Buffer
	enc   *hpack.Encoder
	next  uint32

	begun chan struct{} // receives for each response that has begun
	reset chan struct{} // receives for each stream that the server has reset
}

func newStalled(t *testing.T, e *apiservertest.Env) *stalled {
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
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	s := &stalled{
		t: t, framer: http2.NewFramer(conn, conn), next: 1,
		begun: make(chan struct{}, 1000), reset: make(chan struct{}, 1000),
	}
	s.enc = hpack.NewEncoder(&s.block)
	if err := s.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		t.Fatal(err)
	}
	go s.read()
	return s
}

// read acknowledges what the server requires, until the connection is closed.
func (s *stalled) read() {
	for {
		frame, err := s.framer.ReadFrame()
		if err != nil {
			return
		}
		switch f := frame.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				s.mu.Lock()
				_ = s.framer.WriteSettingsAck() // fails when the connection is closed
				s.mu.Unlock()
			}
		case *http2.PingFrame:
			s.mu.Lock()
			_ = s.framer.WritePing(true, f.Data)
			s.mu.Unlock()
		case *http2.HeadersFrame:
			s.begun <- struct{}{}
		case *http2.RSTStreamFrame:
			s.reset <- struct{}{}
		}
	}
}

// get sends a request and returns when its response has begun.
func (s *stalled) get(path string) {
	s.t.Helper()
	s.mu.Lock()
	s.block.Reset()
	for _, h := range [][2]string{
		{":method", "GET"}, {":scheme", "https"}, {":path", path}, {":authority", "h"}, {"authorization", "Bearer " + apiservertest.AdminToken},
	} {
		if err := s.enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}); err != nil {
			s.t.Fatal(err)
		}
	}
	err := s.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: s.next, BlockFragment: s.block.Bytes(), EndStream: true, EndHeaders: true})
	s.next += 2
	s.mu.Unlock()
	if err != nil {
		s.t.Fatal(err)
	}
	<-s.begun
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
	<-s.reset
	clk.Step(time.Hour / 4)
	if n := running(t, metrics, "watch"); n != 1 {
		t.Errorf("%d watches run, want the one without events", n)
	}
}

// TestStalledWatchesShare opens 300 watches of two large objects whose client never reads, and measures what they hold.
func TestStalledWatchesShare(t *testing.T) {
	measured.Only(t)
	const watches, most = 300, 48 << 20
	for _, path := range []string{"/api/v1/configmaps?watch=1", "/api/v1/namespaces/default/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"} {
		e := apiservertest.New(t)
		largeMaps(t, e, 2)
		before := memoryInUse()
		s := newStalled(t, e)
		for range watches {
			s.get(path)
		}
		time.Sleep(2 * time.Second) // until all of them have encoded what they send
		held := memoryInUse() - before
		t.Logf("%d watches hold %d MB", watches, held>>20)
		if held > most {
			t.Errorf("%s: %d watches hold %d bytes, more than %d", path, watches, held, most)
		}
	}
}
