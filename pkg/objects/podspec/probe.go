package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

func (v *validator) probes(c *corev1.Container, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := c.LivenessProbe; p != nil {
		errs = append(errs, v.probe(p, at.Child("livenessProbe"))...)
		errs = append(errs, succeedsOnce(p, at.Child("livenessProbe"))...)
	}
	if p := c.ReadinessProbe; p != nil {
		errs = append(errs, v.probe(p, at.Child("readinessProbe"))...)
		if p.TerminationGracePeriodSeconds != nil {
			errs = append(errs, field.Invalid(at.Child("readinessProbe", "terminationGracePeriodSeconds"), p.TerminationGracePeriodSeconds,
				"must not be set for readinessProbes"))
		}
	}
	if p := c.StartupProbe; p != nil {
		errs = append(errs, v.probe(p, at.Child("startupProbe"))...)
		errs = append(errs, succeedsOnce(p, at.Child("startupProbe"))...)
	}
	return errs
}

func succeedsOnce(p *corev1.Probe, at *field.Path) field.ErrorList {
	if p.SuccessThreshold == 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("successThreshold"), p.SuccessThreshold, "must be 1")}
}

func (v *validator) probe(p *corev1.Probe, at *field.Path) field.ErrorList {
	h := handler{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC}
	errs := v.handler(h, at)
	numbers := [...]struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds}, {"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	}
	for _, n := range numbers {
		if n.value < 0 {
			errs = append(errs, check.NonNegative(n.value, at.Child(n.name))...)
		}
	}
	if grace := p.TerminationGracePeriodSeconds; grace != nil && *grace <= 0 {
		errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), *grace, "must be greater than 0"))
	}
	return errs
}

// handler is the action of a probe or a lifecycle hook.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func (v *validator) handler(h handler, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	n := 0
	first := func(there bool, name string) bool {
		if !there {
			return false
		}
		n++
		if n > 1 {
			errs = append(errs, field.Forbidden(at.Child(name), "may not specify more than 1 handler type"))
		}
		return n == 1
	}
	if first(h.exec != nil, "exec") && len(h.exec.Command) == 0 {
		errs = append(errs, field.Required(at.Child("exec", "command"), ""))
	}
	if first(h.http != nil, "httpGet") {
		errs = append(errs, validateHTTPGet(h.http, at.Child("httpGet"))...)
	}
	if first(h.tcp != nil, "tcpSocket") {
		errs = append(errs, PortNumberOrName(h.tcp.Port, at, "tcpSocket", "port")...)
	}
	if first(h.grpc != nil, "grpc") {
		errs = append(errs, PortNumberOrName(intstr.FromInt32(h.grpc.Port), at, "grpc", "port")...)
	}
	if first(h.sleep != nil, "sleep") {
		errs = append(errs, v.sleep(h.sleep, at.Child("sleep"))...)
	}
	if n == 0 {
		errs = append(errs, field.Required(at, "must specify a handler type"))
	}
	return errs
}

var schemes = []corev1.URIScheme{corev1.URISchemeHTTP, corev1.URISchemeHTTPS}

func validateHTTPGet(h *corev1.HTTPGetAction, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if h.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), ""))
	}
	errs = append(errs, PortNumberOrName(h.Port, at, "port")...)
	errs = append(errs, check.OneOf(h.Scheme, schemes, at, "scheme")...)
	for _, header := range h.HTTPHeaders {
		errs = append(errs, check.Invalid(at.Child("httpHeaders"), header.Name, utilvalidation.IsHTTPHeaderName(header.Name))...)
	}
	return errs
}

func (v *validator) sleep(s *corev1.SleepAction, at *field.Path) field.ErrorList {
	grace := v.spec.TerminationGracePeriodSeconds
	if grace == nil || 0 <= s.Seconds && s.Seconds <= *grace {
		return nil
	}
	return field.ErrorList{field.Invalid(at, s.Seconds,
		fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace))}
}

func (v *validator) lifecycle(l *corev1.Lifecycle, at *field.Path) field.ErrorList {
	if l == nil {
		return nil
	}
	at = at.Child("lifecycle")
	var errs field.ErrorList
	if h := l.PostStart; h != nil {
		errs = append(errs, v.handler(handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}, at.Child("postStart"))...)
	}
	if h := l.PreStop; h != nil {
		errs = append(errs, v.handler(handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}, at.Child("preStop"))...)
	}
	return errs
}
