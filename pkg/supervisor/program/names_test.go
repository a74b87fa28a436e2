package program

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestNameserver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	text := "# a comment\nnameserver ::1\nnameserver 127.0.0.9\nnameserver 127.0.0.10\nsearch shop.svc.cluster.local svc.cluster.local\noptions edns0 ndots:5\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := readNameserver(path)
	if err != nil || n.address != [4]byte{127, 0, 0, 9} || n.port != 53 || n.ndots != 5 {
		t.Errorf("got %+v, %v", n, err)
	}
	for name, want := range map[string]string{
		"web": "web.shop.svc.cluster.local web.svc.cluster.local web", "a.b.c.d.e.f": "a.b.c.d.e.f a.b.c.d.e.f.shop.svc.cluster.local a.b.c.d.e.f.svc.cluster.local", "web.": "web",
	} {
		if got := strings.Join(n.candidates(name), " "); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// TestResolve asks a server.
func TestResolve(t *testing.T) {
	socket, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &dns.Server{PacketConn: socket, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) {
		reply := new(dns.Msg).SetReply(req)
		reply.Compress = true
		name := req.Question[0].Name
		switch name {
		case "alias.svc.", "web.svc.":
			reply.Answer = append(reply.Answer, &dns.CNAME{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeCNAME, Class: dns.ClassINET}, Target: "target.example."})
			for _, last := range []byte{1, 2} {
				reply.Answer = append(reply.Answer, &dns.A{Hdr: dns.RR_Header{Name: "target.example.", Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(192, 0, 2, last)})
			}
		case "refused.":
			reply.Rcode = dns.RcodeRefused
		default:
			reply.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(reply)
	})}
	ended := make(chan error, 1)
	started := make(chan struct{})
	srv.NotifyStartedFunc = func() { close(started) }
	go func() { ended <- srv.ActivateAndServe() }()
	<-started
	defer func() {
		if err := errors.Join(srv.Shutdown(), <-ended); err != nil {
			t.Error(err)
		}
	}()
	n := nameserver{address: [4]byte{127, 0, 0, 1}, port: socket.LocalAddr().(*net.UDPAddr).Port, searches: []string{"default.svc", "svc"}, ndots: 5}
	for name, want := range map[string][]string{"web": {"192.0.2.1", "192.0.2.2"}, "web.svc.": {"192.0.2.1", "192.0.2.2"}} {
		if got, err := n.resolve(name); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if got, err := n.resolve("none"); !errors.Is(err, errNoName) {
		t.Errorf("a missing name: got %q, %v", got, err)
	}
	for _, name := range []string{"refused.", "a..b.", strings.Repeat("x", 64) + ".", strings.Repeat("x.", 200)} {
		if got, err := n.resolve(name); err == nil || errors.Is(err, errNoName) {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
}

// FuzzAddresses parses any answer.
func FuzzAddresses(f *testing.F) {
	question, err := newQuestion("web.svc")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(question)
	f.Add(append(slices.Clone(question), 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4, 127, 0, 0, 1))
	f.Fuzz(func(_ *testing.T, answer []byte) { _, _ = addressesIn(answer, len(question)) })
}
