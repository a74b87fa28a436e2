package controllers

import "k8s.io/apimachinery/pkg/runtime/schema"

// Unattended lists the resources of which people expect that something happens, and of which no controller here makes
// anything. Whoever writes one takes its line away.
var Unattended = []schema.GroupResource{
	{Resource: "replicationcontrollers"},
	{Resource: "persistentvolumeclaims"},
	{Group: "apps", Resource: "daemonsets"},
	{Group: "apps", Resource: "statefulsets"},
	{Group: "autoscaling", Resource: "horizontalpodautoscalers"},
	{Group: "batch", Resource: "cronjobs"},
	{Group: "batch", Resource: "jobs"},
	{Group: "networking.k8s.io", Resource: "ingresses"},
	{Group: "networking.k8s.io", Resource: "networkpolicies"},
	{Group: "policy", Resource: "poddisruptionbudgets"},
	{Group: "resource.k8s.io", Resource: "resourceclaims"},
	{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"},
}
