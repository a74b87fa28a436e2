package proxy

import (
	"context"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/podref"
)

// hostPortsOf returns the host ports of a pod that runs or is about to. A pod with the network of its node listens there itself.
func hostPortsOf(pod *corev1.Pod) []corev1.ContainerPort {
	if pod.Spec.HostNetwork || pod.Status.PodIP == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	return slices.DeleteFunc(podref.HostPorts(pod), func(p corev1.ContainerPort) bool { return p.Protocol == corev1.ProtocolSCTP })
}

// nameOf is the key of all host ports with the same protocol and number.
func nameOf(p *corev1.ContainerPort) string {
	return string(p.Protocol) + "/" + strconv.Itoa(int(p.HostPort))
}

// podsByHostPort lists pods by the names of their host ports.
var podsByHostPort = client.NewIndex(func(pod *corev1.Pod) []string {
	var out []string
	for _, h := range hostPortsOf(pod) {
		out = append(out, nameOf(&h))
	}
	slices.Sort(out)
	return slices.Compact(out)
})

// hostPortKeys returns the keys of the host ports that a change concerns. They have no namespace, which no Service is without.
func hostPortKeys(ch client.Change[*corev1.Pod]) []objects.Key {
	var out []objects.Key
	for _, pod := range []*corev1.Pod{ch.Old, ch.New} {
		if pod == nil {
			continue
		}
		for _, h := range hostPortsOf(pod) {
			out = append(out, objects.Key{Name: nameOf(&h)})
		}
	}
	return out
}

func (p *Proxy) reconcileHostPort(ctx context.Context, key objects.Key) (time.Duration, error) {
	want, owners := p.hostPort(key)
	p.routes.change(key, want)
	return p.apply(key, want, func(f frontend, err error) {
		for _, pod := range owners[f] {
			p.cfg.Events.Event(ctx, pod, corev1.EventTypeWarning, "FailedToListen", notListening(f, err))
		}
	}), nil
}

// hostPort returns the frontends of a host port, and the pods that have it.
func (p *Proxy) hostPort(key objects.Key) (map[frontend]backends, map[frontend][]*corev1.Pod) {
	want := map[frontend]backends{}
	owners := map[frontend][]*corev1.Pod{}
	for _, pod := range p.pods.ByIndex(podsByHostPort, key.Name) {
		ip, err := netip.ParseAddr(pod.Status.PodIP)
		if err != nil || !p.cfg.Range.Prefix().Contains(ip) {
			continue // no process runs at the address of a simulated pod
		}
		for _, h := range hostPortsOf(pod) {
			if nameOf(&h) != key.Name {
				continue
			}
			for _, at := range p.hosts.hostIPs(h.HostIP) {
				f := frontend{h.Protocol, netip.AddrPortFrom(at, uint16(h.HostPort))}
				to := want[f]
				// All nodes have the same address, so that clients outside pods reach the pods of all nodes.
				to.local = true
				to.endpoints = append(to.endpoints, endpoint{netip.AddrPortFrom(ip, uint16(h.ContainerPort)), pod.Spec.NodeName})
				want[f], owners[f] = to, append(owners[f], pod)
			}
		}
	}
	for _, to := range want {
		slices.SortFunc(to.endpoints, func(a, b endpoint) int { return a.address.Compare(b.address) })
	}
	return want, owners
}

// hostIPs returns the addresses of a hostIP: without one all of the node, else that one if it is a loopback address.
func (a addresses) hostIPs(text string) []netip.Addr {
	if ip, err := netip.ParseAddr(text); text == "" || err == nil && ip.IsUnspecified() {
		return a.nodes
	}
	return a.listenable([]string{text}, netip.Addr.IsLoopback)
}
