package networking

import (
	"fmt"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// ingressCheck checks an Ingress. An update may keep what older servers accepted: see tolerate.
type ingressCheck struct {
	anySecretName   bool // of spec.tls
	anyWildcardRule bool // of rules for wildcard hosts
	serviceName     func(name string, prefix bool) []string
}

func validateIngress(i, old *networkingv1.Ingress) field.ErrorList {
	c := tolerate(old)
	if old != nil {
		return append(check.MetaUpdate(i, old), c.whole(i)...)
	}
	errs := c.whole(i)
	if class, ok := i.Annotations[classAnnotation]; ok && i.Spec.IngressClassName != nil && class != *i.Spec.IngressClassName {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(classAnnotation), class, "must match `ingressClassName` when both are specified"))
	}
	return errs
}

// tolerate returns the check of an update of old, or of a create if old is nil.
func tolerate(old *networkingv1.Ingress) ingressCheck {
	c := ingressCheck{serviceName: validation.NameIsDNSLabel}
	if old == nil {
		return c
	}
	for _, t := range old.Spec.TLS {
		c.anySecretName = c.anySecretName || len(secretName(t.SecretName)) > 0
	}
	for i := range old.Spec.Rules {
		r := &old.Spec.Rules[i]
		c.anyWildcardRule = c.anyWildcardRule || strings.Contains(r.Host, "*") && len(ingressCheck{serviceName: validation.NameIsDNS1035Label}.paths(r.HTTP, nil)) > 0
	}
	return c
}

func secretName(name string) []string {
	if name == "" {
		return nil
	}
	return validation.NameIsDNSSubdomain(name, false)
}

func (c ingressCheck) whole(i *networkingv1.Ingress) field.ErrorList {
	at := field.NewPath("spec")
	s := &i.Spec
	errs := check.Meta(i, true, validation.NameIsDNSSubdomain)
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		errs = append(errs, field.Invalid(at, s.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if s.DefaultBackend != nil {
		errs = append(errs, c.backend(s.DefaultBackend, at.Child("defaultBackend"))...)
	}
	for i := range s.Rules {
		errs = append(errs, c.rule(&s.Rules[i], at.Child("rules").Index(i))...)
	}
	for i := range s.TLS {
		errs = append(errs, c.tls(&s.TLS[i], at.Child("tls").Index(i))...)
	}
	if s.IngressClassName != nil {
		errs = append(errs, check.Invalid(at.Child("ingressClassName"), *s.IngressClassName, validation.NameIsDNSSubdomain(*s.IngressClassName, false))...)
	}
	return errs
}

func (c ingressCheck) rule(r *networkingv1.IngressRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Host != "" {
		errs = append(notAddress(r.Host, at.Child("host")), host(r.Host, at.Child("host"))...)
	}
	if strings.Contains(r.Host, "*") && c.anyWildcardRule {
		return errs
	}
	return append(errs, c.paths(r.HTTP, at.Child("http"))...)
}

func notAddress(name string, at *field.Path) field.ErrorList {
	if netutils.ParseIPSloppy(name) == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(at, name, "must be a DNS name, not an IP address")}
}

// host checks a name with an optional wildcard.
func host(name string, at *field.Path) field.ErrorList {
	if strings.Contains(name, "*") {
		return check.Invalid(at, name, utilvalidation.IsWildcardDNS1123Subdomain(name))
	}
	return check.Invalid(at, name, utilvalidation.IsDNS1123Subdomain(name))
}

func (c ingressCheck) tls(t *networkingv1.IngressTLS, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range t.Hosts {
		errs = append(errs, host(name, at.Child("hosts").Index(i))...)
	}
	if c.anySecretName {
		return errs
	}
	return append(errs, check.Invalid(at.Child("secretName"), t.SecretName, secretName(t.SecretName))...)
}

func (c ingressCheck) paths(h *networkingv1.HTTPIngressRuleValue, at *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	at = at.Child("paths")
	if len(h.Paths) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	for i := range h.Paths {
		errs = append(errs, c.path(&h.Paths[i], at.Index(i))...)
	}
	return errs
}

var pathTypes = []networkingv1.PathType{networkingv1.PathTypeExact, networkingv1.PathTypeImplementationSpecific, networkingv1.PathTypePrefix}

func (c ingressCheck) path(p *networkingv1.HTTPIngressPath, at *field.Path) field.ErrorList {
	if p.PathType == nil {
		return field.ErrorList{field.Required(at.Child("pathType"), "pathType must be specified")}
	}
	var errs field.ErrorList
	path := at.Child("path")
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(path, p.Path, "must be an absolute path"))
		}
		for _, part := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(p.Path, part) {
				errs = append(errs, field.Invalid(path, p.Path, fmt.Sprintf("must not contain '%s'", part)))
			}
		}
		for _, end := range []string{"/..", "/."} {
			if strings.HasSuffix(p.Path, end) {
				errs = append(errs, field.Invalid(path, p.Path, fmt.Sprintf("cannot end with '%s'", end)))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !strings.HasPrefix(p.Path, "/") {
			errs = append(errs, field.Invalid(path, p.Path, "must be an absolute path"))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("pathType"), *p.PathType, pathTypes))
	}
	return append(errs, c.backend(&p.Backend, at.Child("backend"))...)
}

func (c ingressCheck) backend(b *networkingv1.IngressBackend, at *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(at, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return reference(b.Resource.APIGroup, b.Resource.Kind, b.Resource.Name, at.Child("resource"))
	case b.Service != nil:
		return c.service(b.Service, at)
	default:
		return field.ErrorList{field.Invalid(at, "", "resource or service backend is required")}
	}
}

func (c ingressCheck) service(s *networkingv1.IngressServiceBackend, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name := at.Child("service", "name"); s.Name == "" {
		errs = append(errs, field.Required(name, ""))
	} else {
		errs = append(errs, check.Invalid(name, s.Name, c.serviceName(s.Name, false))...)
	}
	switch {
	case s.Port.Name != "" && s.Port.Number != 0:
		return append(errs, field.Invalid(at, "", "cannot set both port name & port number"))
	case s.Port.Name != "":
		return append(errs, check.PortName(s.Port.Name, at, "service", "port", "name")...)
	case s.Port.Number != 0:
		return append(errs, check.PortNumber(s.Port.Number, at, "service", "port", "number")...)
	default:
		return append(errs, field.Required(at, "port name or number is required"))
	}
}

func validateIngressStatus(i, old *networkingv1.Ingress) field.ErrorList {
	errs := check.MetaUpdate(i, old)
	at := field.NewPath("status", "loadBalancer", "ingress")
	var known check.Seen[string]
	for _, p := range old.Status.LoadBalancer.Ingress {
		known.Again(p.IP)
	}
	for n, p := range i.Status.LoadBalancer.Ingress {
		if p.IP != "" {
			errs = append(errs, check.IP(p.IP, &known, at.Index(n).Child("ip"))...)
		}
		if p.Hostname != "" {
			errs = append(errs, check.Subdomain(p.Hostname, at.Index(n), "hostname")...)
			errs = append(errs, notAddress(p.Hostname, at.Index(n).Child("hostname"))...)
		}
	}
	return errs
}
