package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kube-scheduler/framework"
)

// NamespaceLimit is the name of a plugin that bounds how many pods of a namespace a node has. The bound is an annotation of the namespace.
const NamespaceLimit = "NamespaceLimit"

// namespaceLimitArgs are the arguments of NamespaceLimit.
type namespaceLimitArgs struct {
	Annotation string `json:"annotation"`
}

type namespaceLimit struct {
	args       namespaceLimitArgs
	namespaces corelisters.NamespaceLister
}

var (
	_ framework.PreFilterPlugin   = (*namespaceLimit)(nil)
	_ framework.FilterPlugin      = (*namespaceLimit)(nil)
	_ framework.EnqueueExtensions = (*namespaceLimit)(nil)
)

func newNamespaceLimit(_ context.Context, given runtime.Object, h framework.Handle) (framework.Plugin, error) {
	p := &namespaceLimit{namespaces: h.SharedInformerFactory().Core().V1().Namespaces().Lister()}
	if raw, ok := given.(*runtime.Unknown); ok {
		if err := json.Unmarshal(raw.Raw, &p.args); err != nil {
			return nil, err
		}
	}
	if p.args.Annotation == "" {
		return nil, errors.New("annotation is required")
	}
	return p, nil
}

func (*namespaceLimit) Name() string { return NamespaceLimit }

// limitState is the bound, in the cycle's state.
type limitState int

func (s limitState) Clone() framework.StateData { return s }

// PreFilter reads the bound of the pod's namespace. It skips pods of namespaces without one.
func (p *namespaceLimit) PreFilter(_ context.Context, state framework.CycleState, pod *corev1.Pod, _ []framework.NodeInfo) (*framework.PreFilterResult, *framework.Status) {
	namespace, err := p.namespaces.Get(pod.Namespace)
	if err != nil {
		return nil, framework.AsStatus(err)
	}
	text, ok := namespace.Annotations[p.args.Annotation]
	if !ok {
		return nil, framework.NewStatus(framework.Skip)
	}
	limit, err := strconv.Atoi(text)
	if err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, fmt.Sprintf("namespace %s: annotation %s is no number", namespace.Name, p.args.Annotation))
	}
	state.Write(NamespaceLimit, limitState(limit))
	return nil, nil
}

func (p *namespaceLimit) PreFilterExtensions() framework.PreFilterExtensions { return nil }

// Filter rejects nodes with as many pods of the namespace as the bound.
func (p *namespaceLimit) Filter(_ context.Context, state framework.CycleState, pod *corev1.Pod, node framework.NodeInfo) *framework.Status {
	limit, err := state.Read(NamespaceLimit)
	if err != nil {
		return framework.AsStatus(err)
	}
	n := 0
	for _, other := range node.GetPods() {
		if other.GetPod().Namespace == pod.Namespace {
			n++
		}
	}
	if n >= int(limit.(limitState)) {
		return framework.NewStatus(framework.Unschedulable, "node(s) had too many pods of the namespace")
	}
	return nil
}

// EventsToRegister lists deletions of pods of the namespace, and changes of namespaces.
func (p *namespaceLimit) EventsToRegister(context.Context) ([]framework.ClusterEventWithHint, error) {
	sameNamespace := func(_ klog.Logger, pod *corev1.Pod, old, _ any) (framework.QueueingHint, error) {
		if deleted, ok := old.(*corev1.Pod); ok && deleted.Namespace == pod.Namespace {
			return framework.Queue, nil
		}
		return framework.QueueSkip, nil
	}
	return []framework.ClusterEventWithHint{
		{Event: framework.ClusterEvent{Resource: framework.Pod, ActionType: framework.Delete}, QueueingHintFn: sameNamespace},
		{Event: framework.ClusterEvent{Resource: "namespaces.v1.", ActionType: framework.Update}},
		{Event: framework.ClusterEvent{Resource: framework.Node, ActionType: framework.Add}},
	}, nil
}
