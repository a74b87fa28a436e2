package client

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// The resources that components use most.
var (
	Pods            = corev1.SchemeGroupVersion.WithResource("pods")
	Nodes           = corev1.SchemeGroupVersion.WithResource("nodes")
	Namespaces      = corev1.SchemeGroupVersion.WithResource("namespaces")
	Services        = corev1.SchemeGroupVersion.WithResource("services")
	ConfigMaps      = corev1.SchemeGroupVersion.WithResource("configmaps")
	Secrets         = corev1.SchemeGroupVersion.WithResource("secrets")
	ServiceAccounts = corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	Events          = corev1.SchemeGroupVersion.WithResource("events")
	Leases          = coordinationv1.SchemeGroupVersion.WithResource("leases")
	PriorityClasses = schedulingv1.SchemeGroupVersion.WithResource("priorityclasses")
	Deployments     = appsv1.SchemeGroupVersion.WithResource("deployments")
	ReplicaSets     = appsv1.SchemeGroupVersion.WithResource("replicasets")
	StatefulSets    = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	DaemonSets      = appsv1.SchemeGroupVersion.WithResource("daemonsets")

	EndpointSlices         = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	ControllerRevisions    = appsv1.SchemeGroupVersion.WithResource("controllerrevisions")
	PersistentVolumeClaims = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
)
