package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/apiservertest"
	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/network/addr"
)

// fixture is a proxy beside an API server, without controllers: the test makes the EndpointSlices.
type fixture struct {
	*testing.T
	client.Client
	hosts addr.Range
}

func newFixture(t *testing.T) *fixture {
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one loopback address only")
	}
	owner := t.TempDir()
	r, err := addr.Claim(addr.Dir(), owner)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := addr.Release(addr.Dir(), owner); err != nil {
			t.Error(err)
		}
	})
	env := apiservertest.New(t, func(c *apiserver.Config) { c.ServiceAddresses = r.Services() })
	f := &fixture{t, env.Client("proxy-test"), r}
	ctx, cancel := context.WithCancel(t.Context())
	caches := client.NewCaches(f.Client, clock.Real())
	events := client.NewRecorder(f.Client, clock.Real(), clock.NewSource(1), "kube-proxy", "")
	p := New(Config{Caches: caches, Events: events, Clock: clock.Real(), Range: r, NodeIPs: []netip.Addr{f.own(7)}})
	ended := make(chan error, 3)
	for _, run := range []func(context.Context) error{caches.Run, events.Run, p.Run} {
		go func() { ended <- run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range 3 {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
	})
	return f
}

func (f *fixture) own(n uint8) netip.Addr { return f.hosts.Own(n) }

// backend listens on one of the daemon's own addresses. Each connection gets a line with the backend's and the client's address, and
// then its own bytes back.
func (f *fixture) backend(n uint8, port int) netip.Addr {
	f.Helper()
	return f.backendAt(netip.AddrPortFrom(f.own(n), uint16(port)))
}

func (f *fixture) backendAt(at netip.AddrPort) netip.Addr {
	f.Helper()
	l, err := net.Listen("tcp4", at.String())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				from := conn.RemoteAddr().(*net.TCPAddr)
				_, _ = io.WriteString(conn, at.Addr().String()+" "+from.IP.String()+"\n")
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return at.Addr()
}

func (f *fixture) service(name string, spec corev1.ServiceSpec) *corev1.Service {
	f.Helper()
	obj, err := f.Create(f.Context(), client.Target{Resource: client.Services, Namespace: "default"},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	return obj.(*corev1.Service)
}

func (f *fixture) setEndpoints(service string, protocol corev1.Protocol, port int32, ips ...netip.Addr) {
	f.Helper()
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service, Namespace: "default", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: &port, Protocol: &protocol}},
	}
	for _, ip := range ips {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip.String()}})
	}
	t := client.Target{Resource: client.EndpointSlices, Namespace: "default"}
	_, err := f.Create(f.Context(), t, s.DeepCopy(), metav1.CreateOptions{})
	if err != nil {
		t.Name = service
		_, err = f.Update(f.Context(), t, s, metav1.UpdateOptions{})
	}
	if err != nil {
		f.Fatal(err)
	}
}

// read connects and returns the first line.
func (f *fixture) read(at string) (net.Conn, string, error) {
	conn, err := net.DialTimeout("tcp4", at, 10*time.Second)
	if err != nil {
		return nil, "", err
	}
	line := make([]byte, 100)
	n, err := conn.Read(line)
	return conn, strings.TrimSpace(string(line[:n])), err
}

// until repeats check until it returns true.
func (f *fixture) until(what string, check func() bool) {
	f.Helper()
	for end := time.Now().Add(time.Minute); !check(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("no sign of %s", what)
		}
	}
}

func TestTCP(t *testing.T) {
	f := newFixture(t)
	ips := []netip.Addr{f.backend(10, 8080), f.backend(11, 8080), f.backend(12, 8080)}
	svc := f.service("web", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 2080, Protocol: corev1.ProtocolTCP}}})
	at := svc.Spec.ClusterIP + ":2080"
	if _, _, err := f.read(at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Fatalf("without endpoints: got %v", err)
	}
	f.setEndpoints("web", corev1.ProtocolTCP, 8080, ips...)
	f.until("the Service", func() bool { _, _, err := f.read(at); return err == nil })
	count := map[string]int{}
	for range 30 {
		conn, line, err := f.read(at)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		count[line]++
	}
	for _, ip := range ips {
		if got := count[ip.String()+" 127.0.0.1"]; got != 10 {
			t.Errorf("%s: got %d of 30 connections: %v", ip, got, count)
		}
	}
	kept, line, err := f.read(netip.AddrPortFrom(f.own(7), uint16(svc.Spec.Ports[0].NodePort)).String())
	if err != nil || !strings.HasSuffix(line, " 127.0.0.1") {
		t.Fatalf("by the node port: got %q, %v", line, err)
	}
	defer kept.Close()
	f.setEndpoints("web", corev1.ProtocolTCP, 8080)
	f.until("the refusal", func() bool { _, _, err := f.read(at); return errors.Is(err, syscall.ECONNREFUSED) })
	if _, err := io.WriteString(kept, "still"); err != nil {
		t.Fatal(err)
	}
	if err := kept.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(kept); err != nil || string(rest) != "still" {
		t.Errorf("a connection of before: got %q, %v", rest, err)
	}
}

// TestClientAddress connects from another address of the machine, as a pod does.
func TestClientAddress(t *testing.T) {
	f := newFixture(t)
	ip := f.backend(10, 8080)
	svc := f.service("web", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 2080, Protocol: corev1.ProtocolTCP}}})
	f.setEndpoints("web", corev1.ProtocolTCP, 8080, ip)
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: f.own(99).AsSlice()}}
	f.until("the client's address", func() bool {
		conn, err := d.Dial("tcp4", svc.Spec.ClusterIP+":2080")
		if err != nil {
			return false
		}
		defer conn.Close()
		line := make([]byte, 100)
		n, err := conn.Read(line)
		if want := ip.String() + " " + f.own(99).String() + "\n"; err != nil || string(line[:n]) != want {
			t.Fatalf("got %q, %v, want %q", line[:n], err, want)
		}
		return true
	})
}

// TestDeadEndpoint sends connections past an endpoint that refuses them.
func TestDeadEndpoint(t *testing.T) {
	f := newFixture(t)
	svc := f.service("web", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 2080, Protocol: corev1.ProtocolTCP}}})
	f.setEndpoints("web", corev1.ProtocolTCP, 8080, f.own(20), f.backend(21, 8080))
	at := svc.Spec.ClusterIP + ":2080"
	f.until("the Service", func() bool { _, _, err := f.read(at); return err == nil })
	for range 4 {
		conn, _, err := f.read(at)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

func TestUDP(t *testing.T) {
	f := newFixture(t)
	var ips []netip.Addr
	for _, n := range []uint8{10, 11} {
		conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(f.own(n), 8053)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		ips = append(ips, f.own(n))
		go func() {
			buf := make([]byte, 100)
			for {
				size, from, err := conn.ReadFromUDPAddrPort(buf)
				if err != nil {
					return
				}
				_, _ = conn.WriteToUDPAddrPort(append([]byte(f.own(n).String()+" "), buf[:size]...), from)
			}
		}()
	}
	svc := f.service("dns", corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 2053, Protocol: corev1.ProtocolUDP}}})
	f.setEndpoints("dns", corev1.ProtocolUDP, 8053, ips...)
	ask := func(conn net.Conn) string {
		if _, err := io.WriteString(conn, "hello"); err != nil {
			return ""
		}
		_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		buf := make([]byte, 100)
		n, err := conn.Read(buf)
		if err != nil {
			return ""
		}
		return string(buf[:n])
	}
	seen := map[string]bool{}
	f.until("both endpoints", func() bool {
		conn, err := net.Dial("udp4", svc.Spec.ClusterIP+":2053")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		first := ask(conn)
		if first == "" {
			return false // not served yet: ICMP refuses
		}
		if second := ask(conn); second != first {
			t.Errorf("one client got %q and %q", first, second)
		}
		seen[first] = true
		return len(seen) == 2
	})
}

// TestTakenAddress records an Event while another program has the address, and listens once it is free.
func TestTakenAddress(t *testing.T) {
	f := newFixture(t)
	other, err := net.Listen("tcp4", netip.AddrPortFrom(f.own(7), 30555).String())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	f.service("web", corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 2080, NodePort: 30555, Protocol: corev1.ProtocolTCP}}})
	f.setEndpoints("web", corev1.ProtocolTCP, 8080, f.backend(10, 8080))
	f.until("the Event", func() bool {
		list, err := f.List(t.Context(), client.Target{Resource: client.Events, Namespace: "default"}, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, obj := range list.Items {
			if e := obj.(*corev1.Event); e.Reason == "FailedToListen" && e.InvolvedObject.Name == "web" && strings.Contains(e.Message, "address already in use") {
				return true
			}
		}
		return false
	})
}
