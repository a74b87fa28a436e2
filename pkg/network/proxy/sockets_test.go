package proxy

import (
	"bufio"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
)

// TestSocketsAreBounded lets more clients connect than there is room for: each is served in its turn.
func TestSocketsAreBounded(t *testing.T) {
	const room, clients = 2, 20
	all := boundedSockets(room)
	backend := listenLoopback(t)
	s, err := serveTCP(netip.MustParseAddrPort("127.0.0.1:0"), chooserTo(backend.Addr()), all, clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	var most atomic.Int32
	go func() {
		for {
			conn, err := backend.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			most.Store(max(most.Load(), int32(len(s.conns))))
			s.mu.Unlock()
			go func() {
				defer conn.Close()
				_, _ = conn.Write([]byte("hello\n"))
				_, _ = conn.Read(make([]byte, 1)) // until the client is gone
			}()
		}
	}()
	var conns []net.Conn
	for range clients {
		conn, err := net.Dial("tcp4", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for i, conn := range conns {
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		conn.Close()
	}
	if got := most.Load(); got > room {
		t.Errorf("%d connections at once, want at most %d", got, room)
	}
}

// TestFlowsAreBounded ignores the packets of clients that there is no room for.
func TestFlowsAreBounded(t *testing.T) {
	all := boundedSockets(1)
	backend := listenLoopback(t)
	s, err := serveUDP(netip.MustParseAddrPort("127.0.0.1:0"), chooserTo(backend.Addr()), all, clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	first, second := netip.MustParseAddrPort("127.0.0.1:2001"), netip.MustParseAddrPort("127.0.0.1:2002")
	for range 2 {
		if s.flow(first) == nil {
			t.Error("no flow for the first client")
		}
	}
	if s.flow(second) != nil {
		t.Error("a flow for which there is no room")
	}
	s.close()
	if !all.tryTake() {
		t.Error("the end of the flows has made no room")
	}
}

// TestNoEndpointTakesNoSocket gives back the room of clients that no endpoint serves.
func TestNoEndpointTakesNoSocket(t *testing.T) {
	all := boundedSockets(1)
	s, err := serveUDP(netip.MustParseAddrPort("127.0.0.1:0"), &chooser{}, all, clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	if s.flow(netip.MustParseAddrPort("127.0.0.1:2001")) != nil || !all.tryTake() {
		t.Error("a client without an endpoint takes a socket")
	}
}

func listenLoopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func chooserTo(at net.Addr) *chooser {
	c := &chooser{}
	c.set(backends{endpoints: []endpoint{{address: netip.MustParseAddrPort(at.String())}}})
	return c
}
