package core

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// Services is the row of Service. Allocators in the API server set cluster IPs and node ports.
var Services = objects.Def[*corev1.Service]{
	Names:         objects.Names{Version: "v1", Kind: "Service", Plural: "services", Short: []string{"svc"}, Categories: []string{"all"}},
	ApplyPriority: 10,
	New:           func() *corev1.Service { return &corev1.Service{} },
	NewList:       func() runtime.Object { return &corev1.ServiceList{} },
	ValidName:     apivalidation.NameIsDNSLabel,
	Default:       defaultService,
	Prepare:       prepareService,
	Validate:      validateService,
	Warnings:      serviceWarnings,
	Columns:       serviceColumns,
	Selectable: map[string]func(*corev1.Service) string{
		"spec.clusterIP": func(s *corev1.Service) string { return s.Spec.ClusterIP },
		"spec.type":      func(s *corev1.Service) string { return string(s.Spec.Type) },
	},
	Reset: []string{"status"},
	Status: &objects.Status[*corev1.Service]{
		Prepare:  func(s, old *corev1.Service) { s.Spec = old.Spec },
		Validate: validateServiceStatus,
		Warnings: serviceStatusWarnings,
		Reset:    []string{"spec"},
	},
	Connects:       []string{"proxy"},
	ReturnsDeleted: true,
	CreateOnUpdate: true,
}

var serviceDoc = corev1.ServiceSpec{}.SwaggerDoc()

var serviceColumns = []objects.Column[*corev1.Service]{
	objects.NameColumn[*corev1.Service](),
	{Name: "Type", Description: serviceDoc["type"], Cell: func(s *corev1.Service, _ time.Time) any { return string(s.Spec.Type) }},
	{Name: "Cluster-IP", Description: serviceDoc["clusterIP"], Cell: func(s *corev1.Service, _ time.Time) any {
		if len(s.Spec.ClusterIPs) > 0 {
			return s.Spec.ClusterIPs[0]
		}
		return orNone("")
	}},
	{Name: "External-IP", Description: serviceDoc["externalIPs"], Cell: func(s *corev1.Service, _ time.Time) any { return externalIPs(s) }},
	{Name: "Port(s)", Description: serviceDoc["ports"], Cell: func(s *corev1.Service, _ time.Time) any { return servicePorts(s) }},
	objects.AgeColumn[*corev1.Service](),
	{Name: "Selector", Wide: true, Description: serviceDoc["selector"],
		Cell: func(s *corev1.Service, _ time.Time) any { return orNone(labels.FormatLabels(s.Spec.Selector)) }},
}

func externalIPs(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		addresses := append([]string(nil), balancerAddresses(s)...)
		addresses = append(addresses, s.Spec.ExternalIPs...)
		if len(addresses) == 0 {
			return "<pending>"
		}
		return strings.Join(addresses, ",")
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return orNone(strings.Join(s.Spec.ExternalIPs, ","))
	}
	return "<unknown>"
}

func balancerAddresses(s *corev1.Service) []string {
	var out []string
	for _, in := range s.Status.LoadBalancer.Ingress {
		switch {
		case in.IP != "":
			out = append(out, in.IP)
		case in.Hostname != "":
			out = append(out, in.Hostname)
		}
	}
	return out
}

func servicePorts(s *corev1.Service) string {
	if len(s.Spec.Ports) == 0 {
		return "<none>"
	}
	out := make([]string, len(s.Spec.Ports))
	for i, p := range s.Spec.Ports {
		if p.NodePort > 0 {
			out[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		} else {
			out[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		}
	}
	return strings.Join(out, ",")
}
