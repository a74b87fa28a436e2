package networking

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// NetworkPolicies is the row of NetworkPolicy.
var NetworkPolicies = objects.Def[*networkingv1.NetworkPolicy]{
	Names: objects.Names{Group: group, Version: version, Kind: "NetworkPolicy", Plural: "networkpolicies",
		Singular: "networkpolicy", Short: []string{"netpol"}},
	Versions:   oldNetworkPolicies,
	New:        func() *networkingv1.NetworkPolicy { return &networkingv1.NetworkPolicy{} },
	Controller: "network-plugin",
	NewList:    func() runtime.Object { return &networkingv1.NetworkPolicyList{} },
	Default:    defaultPolicy,
	Prepare:    preparePolicy,
	Validate:   validatePolicy,
	Warnings:   policyWarnings,
	Columns: []objects.Column[*networkingv1.NetworkPolicy]{
		objects.NameColumn[*networkingv1.NetworkPolicy](),
		{Name: "Pod-Selector", Description: networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"],
			Cell: func(p *networkingv1.NetworkPolicy, _ time.Time) any {
				return metav1.FormatLabelSelector(&p.Spec.PodSelector)
			}},
		objects.AgeColumn[*networkingv1.NetworkPolicy](),
	},
}

func defaultPolicy(p *networkingv1.NetworkPolicy) {
	for i := range p.Spec.Ingress {
		defaultPorts(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		defaultPorts(p.Spec.Egress[i].Ports)
	}
	if len(p.Spec.PolicyTypes) > 0 {
		return
	}
	p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(p.Spec.Egress) > 0 {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

func defaultPorts(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		if ports[i].Protocol == nil {
			ports[i].Protocol = new(corev1.ProtocolTCP)
		}
	}
}

func preparePolicy(p, old *networkingv1.NetworkPolicy) {
	if old == nil {
		p.Generation = 1
		return
	}
	check.Generation(p, old, func() bool { return !check.Same(&p.Spec, &old.Spec) })
}

// policyCheck checks a policy. An update may keep invalid label values in selectors, and the addresses in known.
type policyCheck struct {
	selectors metav1validation.LabelSelectorValidationOptions
	known     *check.Seen[string]
}

func validatePolicy(p, old *networkingv1.NetworkPolicy) field.ErrorList {
	if old == nil {
		return append(check.Meta(p, true, validation.NameIsDNSSubdomain), policyCheck{}.spec(&p.Spec)...)
	}
	c := policyCheck{known: &check.Seen[string]{}}
	c.selectors.AllowInvalidLabelValueInSelector =
		len(check.Selector(&old.Spec.PodSelector, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
	eachBlock(&old.Spec, func(b *networkingv1.IPBlock, _ *field.Path) {
		c.known.Again(b.CIDR)
		for _, part := range b.Except {
			c.known.Again(part)
		}
	})
	return append(check.MetaUpdate(p, old), c.spec(&p.Spec)...)
}

// eachBlock calls f for each ipBlock in spec.
func eachBlock(spec *networkingv1.NetworkPolicySpec, f func(*networkingv1.IPBlock, *field.Path)) {
	visit := func(peers []networkingv1.NetworkPolicyPeer, at *field.Path) {
		for i := range peers {
			if b := peers[i].IPBlock; b != nil {
				f(b, at.Index(i).Child("ipBlock"))
			}
		}
	}
	at := field.NewPath("spec")
	for i := range spec.Ingress {
		visit(spec.Ingress[i].From, at.Child("ingress").Index(i).Child("from"))
	}
	for i := range spec.Egress {
		visit(spec.Egress[i].To, at.Child("egress").Index(i).Child("to"))
	}
}

// policyTypes is in the order of error messages.
var policyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}

func (c policyCheck) spec(s *networkingv1.NetworkPolicySpec) field.ErrorList {
	at := field.NewPath("spec")
	errs := check.Selector(&s.PodSelector, c.selectors, at.Child("podSelector"))
	for i := range s.Ingress {
		rule := at.Child("ingress").Index(i)
		errs = append(errs, policyPorts(s.Ingress[i].Ports, rule.Child("ports"))...)
		errs = append(errs, c.peers(s.Ingress[i].From, rule.Child("from"))...)
	}
	for i := range s.Egress {
		rule := at.Child("egress").Index(i)
		errs = append(errs, policyPorts(s.Egress[i].Ports, rule.Child("ports"))...)
		errs = append(errs, c.peers(s.Egress[i].To, rule.Child("to"))...)
	}
	types := at.Child("policyTypes")
	if len(s.PolicyTypes) > len(policyTypes) {
		return append(errs, field.Invalid(types, &s.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, t := range s.PolicyTypes {
		errs = append(errs, check.OneOf(t, policyTypes, types.Index(i))...)
	}
	return errs
}

var protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}

func policyPorts(ports []networkingv1.NetworkPolicyPort, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range ports {
		p, idx := &ports[i], at.Index(i)
		if p.Protocol != nil {
			errs = append(errs, check.OneOf(*p.Protocol, protocols, idx, "protocol")...)
		}
		last := idx.Child("endPort")
		switch {
		case p.Port == nil:
			if p.EndPort != nil {
				errs = append(errs, field.Invalid(last, *p.EndPort, "may not be specified when `port` is not specified"))
			}
		case p.Port.Type == intstr.Int:
			errs = append(errs, check.PortNumber(p.Port.IntVal, idx, "port")...)
			if p.EndPort == nil {
				continue
			}
			if *p.EndPort < p.Port.IntVal {
				errs = append(errs, field.Invalid(last, p.Port.IntVal, "must be greater than or equal to `port`"))
			}
			errs = append(errs, check.PortNumber(*p.EndPort, last)...)
		default:
			if p.EndPort != nil {
				errs = append(errs, field.Invalid(last, *p.EndPort, "may not be specified when `port` is non-numeric"))
			}
			errs = append(errs, check.PortName(p.Port.StrVal, idx, "port")...)
		}
	}
	return errs
}

func (c policyCheck) peers(peers []networkingv1.NetworkPolicyPeer, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range peers {
		p, idx := &peers[i], at.Index(i)
		if p.PodSelector != nil {
			errs = append(errs, check.Selector(p.PodSelector, c.selectors, idx.Child("podSelector"))...)
		}
		if p.NamespaceSelector != nil {
			errs = append(errs, check.Selector(p.NamespaceSelector, c.selectors, idx.Child("namespaceSelector"))...)
		}
		if p.IPBlock != nil {
			errs = append(errs, c.block(p.IPBlock, idx.Child("ipBlock"))...)
		}
		selected := p.PodSelector != nil || p.NamespaceSelector != nil
		switch {
		case !selected && p.IPBlock == nil:
			errs = append(errs, field.Required(idx, "must specify a peer"))
		case selected && p.IPBlock != nil:
			errs = append(errs, field.Forbidden(idx, "may not specify both ipBlock and another peer"))
		}
	}
	return errs
}

func (c policyCheck) block(b *networkingv1.IPBlock, at *field.Path) field.ErrorList {
	if b.CIDR == "" {
		return field.ErrorList{field.Required(at.Child("cidr"), "")}
	}
	errs := check.CIDR(b.CIDR, c.known, at.Child("cidr"))
	_, whole, err := netutils.ParseCIDRSloppy(b.CIDR)
	if err != nil {
		return errs
	}
	for i, s := range b.Except {
		idx := at.Child("except").Index(i)
		errs = append(errs, check.CIDR(s, c.known, idx)...)
		_, part, err := netutils.ParseCIDRSloppy(s)
		if err != nil {
			continue
		}
		of, _ := whole.Mask.Size()
		size, _ := part.Mask.Size()
		if !whole.Contains(part.IP) || size <= of {
			errs = append(errs, field.Invalid(idx, s, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}

func policyWarnings(p, _ *networkingv1.NetworkPolicy) []string {
	var out []string
	eachBlock(&p.Spec, func(b *networkingv1.IPBlock, at *field.Path) {
		out = append(out, utilvalidation.GetWarningsForCIDR(at.Child("cidr"), b.CIDR)...)
		for i, s := range b.Except {
			out = append(out, utilvalidation.GetWarningsForCIDR(at.Child("except").Index(i), s)...)
		}
	})
	return out
}
