package discovery

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func address(ip string) corev1.EndpointAddress { return corev1.EndpointAddress{IP: ip} }

func addresses(ips ...string) []corev1.EndpointAddress {
	var out []corev1.EndpointAddress
	for _, ip := range ips {
		out = append(out, address(ip))
	}
	return out
}

func port(name string, n int32) corev1.EndpointPort { return corev1.EndpointPort{Name: name, Port: n} }

// The order of ports and subsets, by hash, is checked by the recordings of a real cluster.
func TestPack(t *testing.T) {
	for name, c := range map[string]struct{ in, want []corev1.EndpointSubset }{
		"nothing": {nil, []corev1.EndpointSubset{}},
		"ports with the same addresses share a subset": {
			[]corev1.EndpointSubset{
				{Addresses: addresses("10.0.0.2"), Ports: []corev1.EndpointPort{port("a", 1)}},
				{Addresses: addresses("10.0.0.1"), Ports: []corev1.EndpointPort{port("a", 1)}},
				{Addresses: addresses("10.0.0.1", "10.0.0.2"), Ports: []corev1.EndpointPort{port("b", 2)}},
			},
			[]corev1.EndpointSubset{{Addresses: addresses("10.0.0.1", "10.0.0.2"), Ports: []corev1.EndpointPort{port("a", 1), port("b", 2)}}},
		},
		"an address that is also not ready is not ready": {
			[]corev1.EndpointSubset{
				{Addresses: addresses("10.0.0.1"), Ports: []corev1.EndpointPort{port("a", 1)}},
				{NotReadyAddresses: addresses("10.0.0.1"), Ports: []corev1.EndpointPort{port("a", 1)}},
				{Addresses: addresses("10.0.0.1"), Ports: []corev1.EndpointPort{port("a", 1)}},
			},
			[]corev1.EndpointSubset{{NotReadyAddresses: addresses("10.0.0.1"), Ports: []corev1.EndpointPort{port("a", 1)}}},
		},
		"addresses without ports stay": {
			[]corev1.EndpointSubset{{Addresses: addresses("10.0.0.1")}},
			[]corev1.EndpointSubset{{Addresses: addresses("10.0.0.1")}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := pack(c.in)
			for i := range got {
				if p := got[i].Ports; len(p) == 2 && p[0].Name > p[1].Name {
					p[0], p[1] = p[1], p[0]
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTruncate(t *testing.T) {
	many := func(n int) []corev1.EndpointAddress {
		out := make([]corev1.EndpointAddress, n)
		for i := range out {
			out[i] = address(fmt.Sprintf("10.0.%d.%d", i/250, i%250))
		}
		return out
	}
	for name, c := range map[string]struct {
		ready, notReady         [2]int // of two subsets
		wantReady, wantNotReady [2]int
		want                    bool
	}{
		"at the bound":                         {[2]int{600, 200}, [2]int{100, 100}, [2]int{600, 200}, [2]int{100, 100}, false},
		"those that are not ready go first":    {[2]int{600, 200}, [2]int{300, 100}, [2]int{600, 200}, [2]int{150, 50}, true},
		"each subset keeps its share":          {[2]int{1500, 500}, [2]int{10, 0}, [2]int{750, 250}, [2]int{0, 0}, true},
		"the last subset gets what is left":    {[2]int{1000, 1}, [2]int{0, 0}, [2]int{1000, 0}, [2]int{0, 0}, true},
		"as many ready as the bound, and more": {[2]int{1000, 0}, [2]int{0, 5}, [2]int{1000, 0}, [2]int{0, 0}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var subsets []corev1.EndpointSubset
			for i := range 2 {
				subsets = append(subsets, corev1.EndpointSubset{Addresses: many(c.ready[i]), NotReadyAddresses: many(c.notReady[i])})
			}
			if got := truncate(subsets); got != c.want {
				t.Errorf("truncated: %v, want %v", got, c.want)
			}
			for i, s := range subsets {
				if len(s.Addresses) != c.wantReady[i] || len(s.NotReadyAddresses) != c.wantNotReady[i] {
					t.Errorf("subset %d has %d and %d addresses, want %d and %d", i, len(s.Addresses), len(s.NotReadyAddresses), c.wantReady[i], c.wantNotReady[i])
				}
			}
		})
	}
}

func pod(name, ip string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{"app": "a"}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{
			Name: "c", Image: "i", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func unready(p *corev1.Pod)  { p.Status.Conditions = nil }
func deleted(p *corev1.Pod)  { p.DeletionTimestamp = ptr.To(metav1.Now()) }
func finished(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }

func TestSubsetsOf(t *testing.T) {
	numbered := corev1.ServicePort{Name: "p", Port: 80, TargetPort: intstr.FromInt32(9090), Protocol: corev1.ProtocolTCP}
	named := corev1.ServicePort{Name: "p", Port: 80, TargetPort: intstr.FromString("web"), Protocol: corev1.ProtocolTCP}
	tcp := func(n int32) []corev1.EndpointPort {
		return []corev1.EndpointPort{{Name: "p", Port: n, Protocol: corev1.ProtocolTCP}}
	}
	of := func(name, ip string) corev1.EndpointAddress {
		return corev1.EndpointAddress{IP: ip, NodeName: ptr.To("n"), TargetRef: &corev1.ObjectReference{
			Kind: "Pod", Namespace: "default", Name: name, UID: types.UID(name),
		}}
	}
	withHostname := of("a", "10.0.0.1")
	withHostname.Hostname = "h"
	for name, c := range map[string]struct {
		spec corev1.ServiceSpec
		pods []*corev1.Pod
		want []corev1.EndpointSubset
	}{
		"a port by number, a pod that is ready and one that is not": {
			corev1.ServiceSpec{Ports: []corev1.ServicePort{numbered}}, []*corev1.Pod{pod("a", "10.0.0.1"), pod("b", "10.0.0.2", unready)},
			[]corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{of("a", "10.0.0.1")}, NotReadyAddresses: []corev1.EndpointAddress{of("b", "10.0.0.2")}, Ports: tcp(9090),
			}},
		},
		"a port by name": {
			corev1.ServiceSpec{Ports: []corev1.ServicePort{named}}, []*corev1.Pod{pod("a", "10.0.0.1")},
			[]corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{of("a", "10.0.0.1")}, Ports: tcp(8080)}},
		},
		"a pod without the named port": {
			corev1.ServiceSpec{Ports: []corev1.ServicePort{named}},
			[]*corev1.Pod{pod("a", "10.0.0.1", func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil })}, []corev1.EndpointSubset{},
		},
		"pods that are deleted, have ended, or have no address": {
			corev1.ServiceSpec{Ports: []corev1.ServicePort{numbered}},
			[]*corev1.Pod{pod("a", "10.0.0.1", deleted), pod("b", "10.0.0.2", finished), pod("c", "", func(p *corev1.Pod) { p.Status.PodIPs = nil })},
			[]corev1.EndpointSubset{},
		},
		"publishNotReadyAddresses": {
			corev1.ServiceSpec{Ports: []corev1.ServicePort{numbered}, PublishNotReadyAddresses: true},
			[]*corev1.Pod{pod("a", "10.0.0.1", unready), pod("b", "10.0.0.2", unready, deleted)},
			[]corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{of("a", "10.0.0.1"), of("b", "10.0.0.2")}, Ports: tcp(9090)}},
		},
		"headless, without ports, with a hostname": {
			corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
			[]*corev1.Pod{pod("a", "10.0.0.1", func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "h", "s" })},
			[]corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{withHostname}}},
		},
		"pods of the other address family": {
			corev1.ServiceSpec{Ports: []corev1.ServicePort{numbered}, IPFamilies: []corev1.IPFamily{corev1.IPv6Protocol}},
			[]*corev1.Pod{pod("a", "10.0.0.1"), pod("b", "fd00::2")},
			[]corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{of("b", "fd00::2")}, Ports: tcp(9090)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"}, Spec: c.spec}
			if diff := cmp.Diff(c.want, subsetsOf(s, c.pods)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
