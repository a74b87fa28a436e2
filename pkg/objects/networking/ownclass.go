package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// IngressController is the controller of the cluster's own IngressClass.
	IngressController = "minikctl.dev/ingress"
	// IngressComponent is the component that serves Ingresses.
	IngressComponent = "ingress-controller"
)

// OwnIngressClass returns the IngressClass of clusters that serve Services. It is the default class.
func OwnIngressClass() *networkingv1.IngressClass {
	return &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: "minikctl", Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: "true"}},
		Spec:       networkingv1.IngressClassSpec{Controller: IngressController},
	}
}
