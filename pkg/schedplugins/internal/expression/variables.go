package expression

import (
	"github.com/google/cel-go/cel"
	corev1 "k8s.io/api/core/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/kube-scheduler/framework"
)

// Node and Pod are values of the variables. Their maps may be those of the objects and must not be changed.
type (
	Node map[string]any
	Pod  map[string]any
)

// podFields are the fields of pod, sorted.
var podFields = []string{"annotations", "labels", "name", "namespace", "nodeSelector", "priority", "requests", "schedulerName", "serviceAccountName"}

// variables returns the declarations of node and pod. Amounts of resources are doubles in base units: cores, bytes, pieces.
func variables() environment.VersionedOptions {
	text, number := apiservercel.StringType, apiservercel.IntType
	texts := apiservercel.NewMapType(apiservercel.StringType, apiservercel.StringType, -1)
	amounts := apiservercel.NewMapType(apiservercel.StringType, apiservercel.DoubleType, -1)
	taint := object("Taint", map[string]*apiservercel.DeclType{"key": text, "value": text, "effect": text})
	node := object("Node", map[string]*apiservercel.DeclType{
		"name": text, "labels": texts, "annotations": texts, "unschedulable": apiservercel.BoolType, "taints": apiservercel.NewListType(taint, -1),
		"allocatable": amounts, "requested": amounts, "pods": number,
	})
	pod := object("Pod", map[string]*apiservercel.DeclType{
		"name": text, "namespace": text, "labels": texts, "annotations": texts, "nodeSelector": texts, "priority": number,
		"requests": amounts, "schedulerName": text, "serviceAccountName": text,
	})
	return environment.VersionedOptions{
		EnvOptions: []cel.EnvOption{cel.Variable("node", node.CelType()), cel.Variable("pod", pod.CelType())},
		DeclTypes:  []*apiservercel.DeclType{node, pod, taint},
	}
}

func object(name string, fields map[string]*apiservercel.DeclType) *apiservercel.DeclType {
	declared := map[string]*apiservercel.DeclField{}
	for field, t := range fields {
		declared[field] = apiservercel.NewDeclField(field, t, true, nil, nil)
	}
	return apiservercel.NewObjectType("minikctl.dev.scheduler."+name, declared)
}

// NodeOf returns the value of node.
func NodeOf(info framework.NodeInfo) Node {
	node := info.Node()
	taints := make([]any, len(node.Spec.Taints))
	for i, t := range node.Spec.Taints {
		taints[i] = map[string]any{"key": t.Key, "value": t.Value, "effect": string(t.Effect)}
	}
	allocatable := amountsOf(info.GetAllocatable())
	allocatable[string(corev1.ResourcePods)] = float64(info.GetAllocatable().GetAllowedPodNumber())
	requested := amountsOf(info.GetRequested())
	requested[string(corev1.ResourcePods)] = float64(len(info.GetPods()))
	for name := range allocatable {
		if _, ok := requested[name]; !ok {
			requested[name] = 0
		}
	}
	return Node{
		"name": node.Name, "labels": present(node.Labels), "annotations": present(node.Annotations), "unschedulable": node.Spec.Unschedulable,
		"taints": taints, "allocatable": allocatable, "requested": requested, "pods": int64(len(info.GetPods())),
	}
}

// PodOf returns the value of pod, with its requests.
func PodOf(pod *corev1.Pod, requests framework.Resource) Pod {
	return Pod{
		"name": pod.Name, "namespace": pod.Namespace, "labels": present(pod.Labels), "annotations": present(pod.Annotations),
		"nodeSelector": present(pod.Spec.NodeSelector), "priority": int64(helper.PodPriority(pod)), "requests": amountsOf(requests),
		"schedulerName": pod.Spec.SchedulerName, "serviceAccountName": pod.Spec.ServiceAccountName,
	}
}

func amountsOf(r framework.Resource) map[string]float64 {
	out := map[string]float64{
		string(corev1.ResourceCPU): float64(r.GetMilliCPU()) / 1000, string(corev1.ResourceMemory): float64(r.GetMemory()),
		string(corev1.ResourceEphemeralStorage): float64(r.GetEphemeralStorage()),
	}
	for name, n := range r.GetScalarResources() {
		out[string(name)] = float64(n)
	}
	return out
}

// present returns an empty map for nil.
func present(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
