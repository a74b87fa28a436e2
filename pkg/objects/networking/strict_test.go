package networking

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func policyOf(cidr string) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", ResourceVersion: "1"}}
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}}}}
	defaultPolicy(p)
	return p
}

// TestStrictAddresses checks that ambiguous addresses are rejected, and may stay in updates.
func TestStrictAddresses(t *testing.T) {
	const odd = "010.0.0.0/8"
	errs := validatePolicy(policyOf(odd), nil)
	if len(errs) != 1 || errs[0].Field != "spec.ingress[0].from[0].ipBlock.cidr" || errs[0].Detail != "must not have leading 0s in IP or prefix length" {
		t.Errorf("new: %v", errs)
	}
	if errs := validatePolicy(policyOf(odd), policyOf(odd)); len(errs) > 0 {
		t.Errorf("old: %v", errs)
	}
	now, old := &networkingv1.Ingress{}, &networkingv1.Ingress{}
	now.ResourceVersion = "1"
	now.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "01.2.3.4"}}
	if errs := validateIngressStatus(now, old); len(errs) != 1 || errs[0].Field != "status.loadBalancer.ingress[0].ip" {
		t.Errorf("new: %v", errs)
	}
	if errs := validateIngressStatus(now, now); len(errs) > 0 {
		t.Errorf("old: %v", errs)
	}
}

func TestAddressUpdates(t *testing.T) {
	old := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.1", ResourceVersion: "1"},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "n", Name: "s"}}}
	now := old.DeepCopy()
	if errs := validateAddress(now, old); len(errs) > 0 {
		t.Errorf("nothing changes: %v", errs)
	}
	now.Spec.ParentRef = nil
	errs := validateAddress(now, old)
	if len(errs) != 2 || errs[0].Error() != "spec.parentRef: Required value" || errs[1].Error() != "spec.parentRef: Invalid value: null: field is immutable" {
		t.Errorf("no parent: %v", errs)
	}
}
