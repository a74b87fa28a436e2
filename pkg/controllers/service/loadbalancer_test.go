package service

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestChoose(t *testing.T) {
	balancer := netip.MustParsePrefix("127.7.127.0/29")
	with := func(name string, ips ...string) *corev1.Service {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		for _, ip := range ips {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
		return svc
	}
	all := []*corev1.Service{with("web", "127.7.127.7"), with("a", "127.7.127.1"), with("b", "127.7.127.3", "example.com")}
	full := with("full", "127.7.127.1", "127.7.127.2", "127.7.127.3", "127.7.127.4", "127.7.127.5", "127.7.127.6", "127.7.127.7")
	for _, c := range []struct {
		name, asked, last string
		all               []*corev1.Service
		want              string // the address, or a part of the error
	}{
		{"the first", "", "", nil, "127.7.127.1"},
		{"the first free one", "", "", all, "127.7.127.2"},
		{"the next one", "", "127.7.127.2", all, "127.7.127.4"},
		{"from the start again", "", "127.7.127.7", all, "127.7.127.2"},
		{"the own one is free", "", "127.7.127.6", all, "127.7.127.7"},
		{"the last one given out, free again", "", "127.7.127.4", []*corev1.Service{with("full", "127.7.127.1", "127.7.127.2", "127.7.127.3", "127.7.127.5", "127.7.127.6", "127.7.127.7")}, "127.7.127.4"},
		{"none is left", "", "127.7.127.4", []*corev1.Service{full}, "the load balancer has no free address in 127.7.127.0/29"},
		{"asked for", "127.7.127.5", "", all, "127.7.127.5"},
		{"asked for, of another", "127.7.127.3", "", all, "service ns/b has the address 127.7.127.3"},
		{"asked for, elsewhere", "192.0.2.1", "", all, "the load balancer has no address 192.0.2.1: its addresses are those of 127.7.127.0/29"},
		{"asked for, a network's", "127.7.127.0", "", all, "the load balancer has no address 127.7.127.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			svc := with("web")
			svc.Spec.LoadBalancerIP = c.asked
			last, _ := netip.ParseAddr(c.last)
			at, err := allocate(svc, c.all, balancer, last)
			got := at.String()
			if err != nil {
				got = err.Error()
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
