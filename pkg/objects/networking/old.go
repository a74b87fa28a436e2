package networking

import (
	"strings"

	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Kubernetes no longer serves these versions. They are here because articles and books use them.

var (
	oldIngresses = []objects.Version[*networkingv1.Ingress]{
		oldIngress("networking.k8s.io/v1beta1", func() *networkingv1beta1.Ingress { return &networkingv1beta1.Ingress{} },
			func() runtime.Object { return &networkingv1beta1.IngressList{} }, defaultOldIngress),
		oldIngress("extensions/v1beta1", func() *extensionsv1beta1.Ingress { return &extensionsv1beta1.Ingress{} },
			func() runtime.Object { return &extensionsv1beta1.IngressList{} }, defaultExtensionsIngress),
	}
	oldIngressClasses = []objects.Version[*networkingv1.IngressClass]{
		objects.Removed("networking.k8s.io/v1beta1", "IngressClass", func() *networkingv1.IngressClass { return &networkingv1.IngressClass{} },
			func() *networkingv1beta1.IngressClass { return &networkingv1beta1.IngressClass{} },
			func() runtime.Object { return &networkingv1beta1.IngressClassList{} }),
	}
	oldNetworkPolicies = []objects.Version[*networkingv1.NetworkPolicy]{
		objects.Removed("extensions/v1beta1", "NetworkPolicy", func() *networkingv1.NetworkPolicy { return &networkingv1.NetworkPolicy{} },
			func() *extensionsv1beta1.NetworkPolicy { return &extensionsv1beta1.NetworkPolicy{} },
			func() runtime.Object { return &extensionsv1beta1.NetworkPolicyList{} }),
	}
)

// oldIngress returns an old version of Ingress. All old versions have the fields of networking.k8s.io/v1beta1.
func oldIngress[V objects.Lifecycle](gv string, older func() V, list func() runtime.Object, fill func(V)) objects.Version[*networkingv1.Ingress] {
	group, version, _ := strings.Cut(gv, "/")
	return objects.Version[*networkingv1.Ingress]{
		Group: group, Version: version, Deprecated: objects.RemovalWarning(gv, "Ingress", older()),
		New:     func() runtime.Object { return older() },
		NewList: list,
		Default: func(obj runtime.Object) { fill(obj.(V)) },
		To: func(obj runtime.Object) (*networkingv1.Ingress, error) {
			in, err := objects.Recode(obj, &networkingv1beta1.Ingress{})
			if err != nil {
				return nil, err
			}
			return ingressFromOld(in)
		},
		From: func(i *networkingv1.Ingress) (runtime.Object, error) {
			out, err := ingressToOld(i)
			if err != nil {
				return nil, err
			}
			return objects.Recode(out, older())
		},
	}
}

// Old versions default the path type to ImplementationSpecific.

func defaultOldIngress(i *networkingv1beta1.Ingress) {
	for _, rule := range i.Spec.Rules {
		for j := 0; rule.HTTP != nil && j < len(rule.HTTP.Paths); j++ {
			if p := &rule.HTTP.Paths[j]; p.PathType == nil {
				p.PathType = new(networkingv1beta1.PathTypeImplementationSpecific)
			}
		}
	}
}

func defaultExtensionsIngress(i *extensionsv1beta1.Ingress) {
	for _, rule := range i.Spec.Rules {
		for j := 0; rule.HTTP != nil && j < len(rule.HTTP.Paths); j++ {
			if p := &rule.HTTP.Paths[j]; p.PathType == nil {
				p.PathType = new(extensionsv1beta1.PathTypeImplementationSpecific)
			}
		}
	}
}

// ingressFromOld copies equal fields by their encoding, and converts the backends, which differ.
func ingressFromOld(in *networkingv1beta1.Ingress) (*networkingv1.Ingress, error) {
	out, err := objects.Recode(in, &networkingv1.Ingress{})
	if err != nil {
		return nil, err
	}
	if b := in.Spec.Backend; b != nil {
		out.Spec.DefaultBackend.Service = serviceFromOld(b)
	}
	for i, rule := range in.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for j := range rule.HTTP.Paths {
			out.Spec.Rules[i].HTTP.Paths[j].Backend.Service = serviceFromOld(&rule.HTTP.Paths[j].Backend)
		}
	}
	return out, nil
}

func serviceFromOld(b *networkingv1beta1.IngressBackend) *networkingv1.IngressServiceBackend {
	port := b.ServicePort
	if b.ServiceName == "" && port.IntVal == 0 && port.StrVal == "" && port.Type == intstr.Int {
		return nil
	}
	return &networkingv1.IngressServiceBackend{Name: b.ServiceName, Port: networkingv1.ServiceBackendPort{Name: port.StrVal, Number: port.IntVal}}
}

func ingressToOld(in *networkingv1.Ingress) (*networkingv1beta1.Ingress, error) {
	out, err := objects.Recode(in, &networkingv1beta1.Ingress{})
	if err != nil {
		return nil, err
	}
	if b := in.Spec.DefaultBackend; b != nil {
		serviceToOld(b.Service, out.Spec.Backend)
	}
	for i, rule := range in.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for j := range rule.HTTP.Paths {
			serviceToOld(rule.HTTP.Paths[j].Backend.Service, &out.Spec.Rules[i].HTTP.Paths[j].Backend)
		}
	}
	return out, nil
}

func serviceToOld(s *networkingv1.IngressServiceBackend, to *networkingv1beta1.IngressBackend) {
	if s == nil {
		return
	}
	to.ServiceName, to.ServicePort = s.Name, intstr.FromInt32(s.Port.Number)
	if s.Port.Name != "" {
		to.ServicePort = intstr.FromString(s.Port.Name)
	}
}
