package webhook

import (
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

var (
	services = schema.GroupResource{Resource: "services"}
	pods     = schema.GroupResource{Resource: "pods"}
	slicesGR = schema.GroupResource{Group: "discovery.k8s.io", Resource: "endpointslices"}
)

// resolve returns an address at which a Service is served. The server does not go by way of the Service's own address,
// which only nodes may know: it asks the endpoints, and where nobody keeps those, the pods that the Service selects.
func resolve(ctx context.Context, r stage.Reader, namespace, name string, port int32) (string, error) {
	obj, err := r.Get(ctx, services, objects.Key{Namespace: namespace, Name: name})
	if err != nil {
		return "", err
	}
	service, ok := obj.(*corev1.Service)
	if !ok {
		return "", fmt.Errorf("the service %q is a %T", name, obj)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(port))), nil
	}
	var at *corev1.ServicePort
	for i := range service.Spec.Ports {
		if service.Spec.Ports[i].Port == port {
			at = &service.Spec.Ports[i]
		}
	}
	if at == nil {
		return "", fmt.Errorf("no service port %d found for service %q", port, name)
	}
	if address, err := ofSlices(ctx, r, service, at); err != nil || address != "" {
		return address, err
	}
	if address, err := ofPods(ctx, r, service, at); err != nil || address != "" {
		return address, err
	}
	return "", fmt.Errorf("no endpoints available for service %q", name)
}

func ofSlices(ctx context.Context, r stage.Reader, s *corev1.Service, at *corev1.ServicePort) (string, error) {
	state, err := r.State(ctx, slicesGR)
	if err != nil || state.Count == 0 {
		return "", err
	}
	all, err := r.List(ctx, slicesGR, s.Namespace)
	if err != nil {
		return "", err
	}
	for _, obj := range all {
		slice, ok := obj.(*discoveryv1.EndpointSlice)
		if !ok || slice.Labels[discoveryv1.LabelServiceName] != s.Name {
			continue
		}
		for _, p := range slice.Ports {
			if p.Port == nil || p.Name != nil && *p.Name != at.Name {
				continue
			}
			for _, e := range slice.Endpoints {
				if (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
					return net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))), nil
				}
			}
		}
	}
	return "", nil
}

func ofPods(ctx context.Context, r stage.Reader, s *corev1.Service, at *corev1.ServicePort) (string, error) {
	if len(s.Spec.Selector) == 0 {
		return "", nil
	}
	all, err := r.List(ctx, pods, s.Namespace)
	if err != nil {
		return "", err
	}
	selector := labels.SelectorFromSet(s.Spec.Selector)
	for _, obj := range all {
		pod, ok := obj.(*corev1.Pod)
		if !ok || pod.DeletionTimestamp != nil || pod.Status.PodIP == "" || !selector.Matches(labels.Set(pod.Labels)) || !ready(pod) {
			continue
		}
		if port := targetPort(pod, at); port > 0 {
			return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(port))), nil
		}
	}
	return "", nil
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// targetPort returns the port of a pod that a Service's port stands for; 0 when it has none.
func targetPort(pod *corev1.Pod, at *corev1.ServicePort) int32 {
	switch {
	case at.TargetPort.Type == intstr.String:
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				if p.Name == at.TargetPort.StrVal {
					return p.ContainerPort
				}
			}
		}
		return 0
	case at.TargetPort.IntVal != 0:
		return at.TargetPort.IntVal
	}
	return at.Port
}
