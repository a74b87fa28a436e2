package proxy

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
)

// pod makes a pod on a node, with a port of the node for its port 8080.
func (f *fixture) pod(name, node string, ip netip.Addr, hostPort corev1.ContainerPort) {
	f.Helper()
	hostPort.ContainerPort = 8080
	_, err := f.Create(f.Context(), client.Target{Resource: client.ServiceAccounts, Namespace: "default"},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		f.Fatal(err)
	}
	at := client.Target{Resource: client.Pods, Namespace: "default"}
	obj, err := f.Create(f.Context(), at, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{
			{Name: "c", Image: "i", Ports: []corev1.ContainerPort{hostPort}}}},
	}, metav1.CreateOptions{})
	if err != nil {
		f.Fatal(err)
	}
	f.setStatus(obj.(*corev1.Pod), corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip.String(), PodIPs: []corev1.PodIP{{IP: ip.String()}}})
}

func (f *fixture) setStatus(pod *corev1.Pod, s corev1.PodStatus) {
	f.Helper()
	pod = pod.DeepCopy()
	pod.ResourceVersion, pod.Status = "", s
	at := client.Target{Resource: client.Pods, Namespace: "default", Name: pod.Name, Subresource: "status"}
	if _, err := f.Update(f.Context(), at, pod, metav1.UpdateOptions{}); err != nil {
		f.Fatal(err)
	}
}

// free returns a port that nothing listens on.
func (f *fixture) free(ip netip.Addr) int32 {
	f.Helper()
	l, err := net.Listen("tcp4", netip.AddrPortFrom(ip, 0).String())
	if err != nil {
		f.Fatal(err)
	}
	defer l.Close()
	return int32(l.Addr().(*net.TCPAddr).Port)
}

// TestHostPorts checks that a host port leads to the pods that have it, for a client in a pod to those of its own node, and only
// while they run.
func TestHostPorts(t *testing.T) {
	f := newFixture(t)
	port := f.free(f.own(7))
	at := netip.AddrPortFrom(f.own(7), uint16(port)).String()
	one, two := f.backend(10, 8080), f.backend(11, 8080)
	f.pod("one", "n1", one, corev1.ContainerPort{HostPort: port})
	f.until("the pod", func() bool { _, line, _ := f.read(at); return line == one.String()+" 127.0.0.1" })
	f.pod("two", "n2", two, corev1.ContainerPort{HostPort: port, HostIP: "0.0.0.0"})
	f.until("the second pod", func() bool { _, line, _ := f.read(at); return line == two.String()+" 127.0.0.1" })
	elsewhere := f.backendAt(netip.MustParseAddrPort("127.1.0.3:8080")) // of no pod of this daemon
	f.pod("simulated", "n3", elsewhere, corev1.ContainerPort{HostPort: port})

	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: two.AsSlice()}} // as the second pod
	for range 6 {
		conn, err := d.Dial("tcp4", at)
		if err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 100)
		n, _ := conn.Read(line)
		conn.Close()
		if got := strings.TrimSpace(string(line[:n])); got != two.String()+" "+two.String() {
			t.Errorf("from the pod of a node: got %q, want the pod of the node, %s", got, two)
		}
	}

	obj, err := f.Get(f.Context(), client.Target{Resource: client.Pods, Namespace: "default", Name: "one"}, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.setStatus(obj.(*corev1.Pod), corev1.PodStatus{Phase: corev1.PodSucceeded, PodIP: one.String(), PodIPs: []corev1.PodIP{{IP: one.String()}}})
	f.until("the other pod only", func() bool {
		for range 6 {
			if _, line, _ := f.read(at); line != two.String()+" 127.0.0.1" {
				return false
			}
		}
		return true
	})
	if _, err := f.Delete(f.Context(), client.Target{Resource: client.Pods, Namespace: "default", Name: "two"},
		metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	f.until("the refusal", func() bool { _, _, err := f.read(at); return errors.Is(err, syscall.ECONNREFUSED) })
}

// TestHostIP checks that a host port of one address leads nowhere at another, and that UDP has ports of its own.
func TestHostIP(t *testing.T) {
	f := newFixture(t)
	port := f.free(f.own(20))
	ip := f.backend(10, 8080)
	f.pod("one", "n1", ip, corev1.ContainerPort{HostPort: port, HostIP: f.own(20).String()})
	f.until("the pod", func() bool {
		_, _, err := f.read(netip.AddrPortFrom(f.own(20), uint16(port)).String())
		return err == nil
	})
	if _, _, err := f.read(netip.AddrPortFrom(f.own(7), uint16(port)).String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("at another address: got %v", err)
	}
	echo, err := net.ListenPacket("udp4", netip.AddrPortFrom(f.own(11), 8080).String())
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		b := make([]byte, 100)
		for {
			n, from, err := echo.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(b[:n], from)
		}
	}()
	f.pod("udp", "n1", f.own(11), corev1.ContainerPort{HostPort: port, HostIP: f.own(20).String(), Protocol: corev1.ProtocolUDP})
	f.until("the answer by UDP", func() bool {
		conn, err := net.Dial("udp4", netip.AddrPortFrom(f.own(20), uint16(port)).String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write([]byte("hello"))
		b := make([]byte, 100)
		n, err := conn.Read(b)
		return err == nil && string(b[:n]) == "hello"
	})
}
