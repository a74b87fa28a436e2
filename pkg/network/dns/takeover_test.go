package dns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/client/clienttest"
	"github.com/minikctl/minikctl/pkg/clock"
)

// TestTakeOver: a question that is sent while no server runs waits in the kept sockets for the next server.
func TestTakeOver(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(l.Addr().String())
	l.Close()
	config := func(held func() ([]*os.File, error)) Config {
		return Config{Caches: client.NewCaches(clienttest.NewListWatcher(), clock.Real()), Domain: "cluster.local", Listen: at, Held: held}
	}
	first, err := New(config(nil))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := first.Sockets()
	if err != nil {
		t.Fatal(err)
	}
	first.udp.Close()
	first.tcp.Close()
	if _, err := New(config(nil)); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("without the sockets: got %v", err)
	}
	if _, err := New(config(func() ([]*os.File, error) { return nil, nil })); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("without the sockets: got %v", err)
	}
	conn, err := net.Dial("udp4", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	question, err := new(dns.Msg).SetQuestion("dns-version.cluster.local.", dns.TypeTXT).Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(question); err != nil {
		t.Fatal(err)
	}
	cfg := config(func() ([]*os.File, error) { return kept, nil })
	second, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- cfg.Caches.Run(ctx) }()
	go func() { ended <- second.Run(ctx) }()
	defer func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}()
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, dns.MaxMsgSize)
	n, err := conn.Read(answer)
	if err != nil {
		t.Fatal(err)
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(answer[:n]); err != nil || len(reply.Answer) != 1 {
		t.Errorf("got %v, %v", reply, err)
	}
	if _, _, err := (&dns.Client{Net: "tcp"}).Exchange(new(dns.Msg).SetQuestion("dns-version.cluster.local.", dns.TypeTXT), at.String()); err != nil {
		t.Error(err)
	}
}

// TestTakeOverTooLate: the sockets are closed after New has found them in use.
func TestTakeOverTooLate(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{
		Caches: client.NewCaches(clienttest.NewListWatcher(), clock.Real()), Domain: "cluster.local", Listen: netip.MustParseAddrPort(l.Addr().String()),
		Held: func() ([]*os.File, error) { return nil, l.Close() },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.udp.Close()
	s.tcp.Close()
}
