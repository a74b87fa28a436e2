// Package backend connects the API server to the webhooks and extension servers behind Services. It connects to the
// endpoints, since the cluster address of a Service works on nodes only.
package backend

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/objects"
)

var (
	services = schema.GroupResource{Resource: "services"}
	slicesGR = schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
)

// dialTimeout is how long an endpoint may take to accept a connection.
const dialTimeout = 10 * time.Second

// Dial connects to a port of a Service, at the first endpoint that accepts. Errors of an endpoint are those of package net.
func Dial(ctx context.Context, r stage.Reader, service objects.Key, port int32) (net.Conn, error) {
	addresses, err := resolve(ctx, r, service, port)
	if err != nil {
		return nil, err
	}
	dial := addr.Dial(&net.Dialer{Timeout: dialTimeout})
	for _, a := range addresses {
		var c net.Conn
		if c, err = dial(ctx, "tcp", a); err == nil || ctx.Err() != nil {
			return c, err
		}
	}
	return nil, err
}

// resolve returns the addresses of a Service's ready endpoints, at least one.
func resolve(ctx context.Context, r stage.Reader, key objects.Key, port int32) ([]string, error) {
	obj, err := r.Get(ctx, services, key)
	if err != nil {
		return nil, err
	}
	service, ok := obj.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("the service %q is a %T", key.Name, obj)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return []string{net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(port)))}, nil
	}
	at := Port(service, port)
	if at == nil {
		return nil, fmt.Errorf("no service port %d found for service %q", port, key.Name)
	}
	addresses, err := ofSlices(ctx, r, service, at)
	if err == nil && len(addresses) == 0 {
		err = fmt.Errorf("no endpoints available for service %q", key.Name)
	}
	return addresses, err
}

// Port returns the port of a Service that has that number; nil when there is none.
func Port(service *corev1.Service, number int32) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		if service.Spec.Ports[i].Port == number {
			return &service.Spec.Ports[i]
		}
	}
	return nil
}

// Slices returns the EndpointSlices of a Service.
func Slices(ctx context.Context, r stage.Reader, service objects.Key) ([]*discoveryv1.EndpointSlice, error) {
	counters, err := r.Counters(ctx, slicesGR)
	if err != nil || counters.Count == 0 {
		return nil, err
	}
	all, err := r.List(ctx, slicesGR, service.Namespace)
	if err != nil {
		return nil, err
	}
	var out []*discoveryv1.EndpointSlice
	for _, obj := range all {
		if slice, ok := obj.(*discoveryv1.EndpointSlice); ok && slice.Labels[discoveryv1.LabelServiceName] == service.Name {
			out = append(out, slice)
		}
	}
	return out, nil
}

// Ready reports whether an endpoint accepts requests.
func Ready(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

func ofSlices(ctx context.Context, r stage.Reader, s *corev1.Service, at *corev1.ServicePort) ([]string, error) {
	all, err := Slices(ctx, r, objects.Key{Namespace: s.Namespace, Name: s.Name})
	var out []string
	for _, slice := range all {
		for _, p := range slice.Ports {
			if p.Port == nil || p.Name != nil && *p.Name != at.Name {
				continue
			}
			for i := range slice.Endpoints {
				if e := &slice.Endpoints[i]; Ready(e) && len(e.Addresses) > 0 {
					out = append(out, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	return out, err
}
