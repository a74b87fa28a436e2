package networking

import (
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRangeHolds(t *testing.T) {
	for _, tt := range []struct {
		prefix, ip string
		want       bool
	}{
		{"10.0.0.0/24", "10.0.0.0", false},
		{"10.0.0.0/24", "10.0.0.1", true},
		{"10.0.0.0/24", "10.0.0.254", true},
		{"10.0.0.0/24", "10.0.0.255", false},
		{"10.0.0.0/24", "10.0.1.1", false},
		{"10.0.0.0/28", "10.0.0.15", false},
		{"10.0.0.0/31", "10.0.0.1", false},
		{"10.0.0.0/32", "10.0.0.0", false},
		{"fd00::/120", "fd00::", false},
		{"fd00::/120", "fd00::ff", true},
		{"10.0.0.0/24", "fd00::1", false},
	} {
		if got := RangeHolds(netip.MustParsePrefix(tt.prefix), netip.MustParseAddr(tt.ip)); got != tt.want {
			t.Errorf("%s in %s: got %v", tt.ip, tt.prefix, got)
		}
	}
}

func TestRangeReady(t *testing.T) {
	with := func(status metav1.ConditionStatus) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: status}}}}
	}
	deleted := with(metav1.ConditionTrue)
	deleted.DeletionTimestamp = &metav1.Time{}
	for _, tt := range []struct {
		name  string
		given *networkingv1.ServiceCIDR
		want  bool
	}{
		{"without a condition", &networkingv1.ServiceCIDR{}, true},
		{"ready", with(metav1.ConditionTrue), true},
		{"terminating", with(metav1.ConditionFalse), false},
		{"being deleted", deleted, false},
	} {
		if got := RangeReady(tt.given); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}
