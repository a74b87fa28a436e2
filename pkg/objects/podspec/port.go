package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/objects/check"
)

// Protocols are the valid protocols of ports.
var Protocols = []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}

func validatePorts(ports []corev1.ContainerPort, at *field.Path) field.ErrorList {
	if len(ports) == 0 {
		return nil
	}
	at = at.Child("ports")
	var errs field.ErrorList
	var names check.Seen[string]
	for i := range ports {
		p, idx := &ports[i], at.Index(i)
		if p.Name != "" {
			wrong := check.PortName(p.Name, idx, "name")
			if wrong == nil && names.Again(p.Name) {
				wrong = field.ErrorList{field.Duplicate(idx.Child("name"), p.Name)}
			}
			errs = append(errs, wrong...)
		}
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(idx.Child("containerPort"), ""))
		} else {
			errs = append(errs, check.PortNumber(p.ContainerPort, idx, "containerPort")...)
		}
		if p.HostPort != 0 {
			errs = append(errs, check.PortNumber(p.HostPort, idx, "hostPort")...)
		}
		errs = append(errs, check.Named(p.Protocol, Protocols, idx, "protocol")...)
	}
	return errs
}

// PortNumberOrName checks a port number or name.
func PortNumberOrName(p intstr.IntOrString, at *field.Path, child ...string) field.ErrorList {
	switch p.Type {
	case intstr.Int:
		return check.PortNumber(p.IntVal, at, child...)
	case intstr.String:
		return check.PortName(p.StrVal, at, child...)
	}
	return field.ErrorList{field.InternalError(check.Below(at, child), fmt.Errorf("unknown type: %v", p.Type))}
}
