package networking

import (
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/objects/check"
)

// classAnnotation is the predecessor of the field ingressClassName.
const classAnnotation = "kubernetes.io/ingress.class"

// Ingresses is the row of Ingress.
var Ingresses = objects.Def[*networkingv1.Ingress]{
	Names:      objects.Names{Group: group, Version: version, Kind: "Ingress", Plural: "ingresses", Singular: "ingress", Short: []string{"ing"}},
	New:        func() *networkingv1.Ingress { return &networkingv1.Ingress{} },
	Controller: IngressComponent,
	NewList:    func() runtime.Object { return &networkingv1.IngressList{} },
	Prepare:    prepareIngress,
	Versions:   oldIngresses,
	Validate:   validateIngress,
	Warnings:   ingressWarnings,
	Columns: []objects.Column[*networkingv1.Ingress]{
		objects.NameColumn[*networkingv1.Ingress](),
		{Name: "Class", Description: "The name of the IngressClass resource that should be used for additional configuration",
			Cell: func(i *networkingv1.Ingress, _ time.Time) any {
				if i.Spec.IngressClassName == nil {
					return none
				}
				return *i.Spec.IngressClassName
			}},
		{Name: "Hosts", Description: "Hosts that incoming requests are matched against before the ingress rule",
			Cell: func(i *networkingv1.Ingress, _ time.Time) any { return hosts(i.Spec.Rules) }},
		{Name: "Address", Description: "Address is a list containing ingress points for the load-balancer",
			Cell: func(i *networkingv1.Ingress, _ time.Time) any { return points(i.Status.LoadBalancer.Ingress) }},
		{Name: "Ports", Description: "Ports of TLS configurations that open",
			Cell: func(i *networkingv1.Ingress, _ time.Time) any {
				if len(i.Spec.TLS) > 0 {
					return "80, 443"
				}
				return "80"
			}},
		objects.AgeColumn[*networkingv1.Ingress](),
	},
	Reset: []string{"status"},
	Status: &objects.Status[*networkingv1.Ingress]{
		Prepare:  func(i, old *networkingv1.Ingress) { i.Spec = old.Spec },
		Validate: validateIngressStatus,
		Warnings: ingressStatusWarnings,
		Reset:    []string{"spec"},
	},
}

// listed is the number of hosts that a table shows.
const listed = 3

func hosts(rules []networkingv1.IngressRule) string {
	var out []string
	more := false
	for _, r := range rules {
		more = more || len(out) == listed
		if !more && r.Host != "" {
			out = append(out, r.Host)
		}
	}
	switch {
	case len(out) == 0:
		return "*"
	case more:
		return fmt.Sprintf("%s + %d more...", strings.Join(out, ","), len(rules)-listed)
	default:
		return strings.Join(out, ",")
	}
}

func points(list []networkingv1.IngressLoadBalancerIngress) string {
	var out []string
	for _, p := range list {
		if s := p.IP; s != "" {
			out = append(out, s)
		} else if p.Hostname != "" {
			out = append(out, p.Hostname)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ",")
}

func prepareIngress(i, old *networkingv1.Ingress) {
	if old == nil {
		i.Status = networkingv1.IngressStatus{}
		i.Generation = 1
		return
	}
	i.Status = old.Status
	check.Generation(i, old, func() bool { return !check.Same(&i.Spec, &old.Spec) })
}

func ingressWarnings(i, old *networkingv1.Ingress) []string {
	if _, ok := i.Annotations[classAnnotation]; !ok || old != nil || i.Spec.IngressClassName != nil {
		return nil
	}
	return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", classAnnotation)}
}

// ingressStatusWarnings warns of ambiguous addresses.
func ingressStatusWarnings(i, _ *networkingv1.Ingress) []string {
	at := check.Status.Child("loadBalancer", "ingress")
	var warnings []string
	for n := range i.Status.LoadBalancer.Ingress {
		if ip := i.Status.LoadBalancer.Ingress[n].IP; ip != "" {
			warnings = append(warnings, utilvalidation.GetWarningsForIP(at.Index(n), ip)...)
		}
	}
	return warnings
}
