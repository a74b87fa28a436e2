package admission

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// priority sets a pod's priority from its priority class.
type priority struct{ reader stage.Reader }

// systemClasses are the classes of every cluster; they apply before they are stored.
var systemClasses = map[string]int32{
	"system-cluster-critical": 2000000000,
	"system-node-critical":    2000001000,
}

func (priority) Name() string { return "Priority" }

func (p priority) Mutate(ctx context.Context, a *stage.Admission) error {
	pod, ok := podOf(a)
	switch {
	case !ok:
		return nil
	case a.Operation == stage.Update:
		keepPriority(pod, a.Old)
		return nil
	case a.Operation != stage.Create:
		return nil
	}
	value, policy, err := p.resolve(ctx, a, pod)
	if err != nil {
		return err
	}
	if pod.Spec.Priority != nil && *pod.Spec.Priority != value {
		return forbid(a, "the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *pod.Spec.Priority, value)
	}
	pod.Spec.Priority = &value
	if policy == nil {
		return nil
	}
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy != *policy {
		return forbid(a, "the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *pod.Spec.PreemptionPolicy, *policy)
	}
	kept := *policy
	pod.Spec.PreemptionPolicy = &kept
	return nil
}

// keepPriority copies the priority that an update leaves out from the old pod.
func keepPriority(pod *corev1.Pod, old objects.Object) {
	before, ok := old.(*corev1.Pod)
	if !ok {
		return
	}
	if v := before.Spec.Priority; pod.Spec.Priority == nil && v != nil {
		kept := *v
		pod.Spec.Priority = &kept
	}
	if v := before.Spec.PreemptionPolicy; pod.Spec.PreemptionPolicy == nil && v != nil {
		kept := *v
		pod.Spec.PreemptionPolicy = &kept
	}
}

func (p priority) resolve(ctx context.Context, a *stage.Admission, pod *corev1.Pod) (int32, *corev1.PreemptionPolicy, error) {
	name := pod.Spec.PriorityClassName
	if name == "" {
		class, err := p.global(ctx)
		if err != nil {
			return 0, nil, apierrors.NewInternalError(fmt.Errorf("failed to get default priority class: %w", err))
		}
		if class == nil {
			policy := corev1.PreemptLowerPriority
			return 0, &policy, nil
		}
		pod.Spec.PriorityClassName = class.Name
		return class.Value, class.PreemptionPolicy, nil
	}
	obj, err := p.reader.Get(ctx, priorityClasses, objects.Key{Name: name})
	if class, ok := obj.(*schedulingv1.PriorityClass); err == nil && ok {
		return class.Value, class.PreemptionPolicy, nil
	}
	if value, ok := systemClasses[name]; ok {
		policy := corev1.PreemptLowerPriority
		return value, &policy, nil
	}
	if apierrors.IsNotFound(err) {
		return 0, nil, forbid(a, "no PriorityClass with name %v was found", name)
	}
	return 0, nil, apierrors.NewInternalError(fmt.Errorf("failed to get PriorityClass with name %s: %w", name, err))
}

// global returns the global default class, the one with the lowest value if there are several.
func (p priority) global(ctx context.Context) (*schedulingv1.PriorityClass, error) {
	list, err := p.reader.List(ctx, priorityClasses, "")
	if err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil // the resource is not served
		}
		return nil, err
	}
	var found *schedulingv1.PriorityClass
	for _, obj := range list {
		class, ok := obj.(*schedulingv1.PriorityClass)
		if ok && class.GlobalDefault && (found == nil || class.Value < found.Value) {
			found = class
		}
	}
	return found, nil
}

// Validate allows only one class to be the global default.
func (p priority) Validate(ctx context.Context, a *stage.Admission) error {
	if a.GVR.GroupResource() != priorityClasses || a.Subresource != "" || a.Operation != stage.Create && a.Operation != stage.Update {
		return nil
	}
	class, ok := a.Object.(*schedulingv1.PriorityClass)
	if !ok || !class.GlobalDefault {
		return nil
	}
	other, err := p.global(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to get default priority class: %w", err))
	}
	if other != nil && (a.Operation == stage.Create || other.Name != class.Name) {
		return forbid(a, "PriorityClass %v is already marked as default. Only one default can exist", other.Name)
	}
	return nil
}

// defaultTolerationSeconds adds tolerations of 300 seconds for nodes that are not ready or unreachable.
type defaultTolerationSeconds struct{}

func (defaultTolerationSeconds) Name() string { return "DefaultTolerationSeconds" }

func (defaultTolerationSeconds) Mutate(_ context.Context, a *stage.Admission) error {
	pod, ok := podOf(a)
	if !ok {
		return nil
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if toleratesEviction(pod.Spec.Tolerations, key) {
			continue
		}
		seconds := int64(300)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
	return nil
}

func toleratesEviction(list []corev1.Toleration, key string) bool {
	for _, t := range list {
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}

// podTopologyLabels copies the zone and region labels of the node to a pod that is bound, or created with a node.
type podTopologyLabels struct{ reader stage.Reader }

func (podTopologyLabels) Name() string { return "PodTopologyLabels" }

func (p podTopologyLabels) Mutate(ctx context.Context, a *stage.Admission) error {
	if a.Operation != stage.Create {
		return nil
	}
	if pod, ok := podOf(a); ok {
		found, err := p.labels(ctx, pod.Spec.NodeName)
		if err != nil || len(found) == 0 {
			return err
		}
		pod.Labels = merged(pod.Labels, found)
		return nil
	}
	binding, ok := a.Sub.(*corev1.Binding)
	if !ok || binding.Target.Kind != "" && binding.Target.Kind != "Node" {
		return nil
	}
	found, err := p.labels(ctx, binding.Target.Name)
	if err != nil || len(found) == 0 {
		return err
	}
	binding.Labels = merged(binding.Labels, found)
	return nil
}

// labels returns the topology labels of a node; none if the node does not exist.
func (p podTopologyLabels) labels(ctx context.Context, node string) (map[string]string, error) {
	if node == "" {
		return nil, nil
	}
	obj, err := p.reader.Get(ctx, nodes, objects.Key{Name: node})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	found := map[string]string{}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if v, ok := obj.GetLabels()[key]; ok {
			found[key] = v
		}
	}
	return found, nil
}

func merged(into, from map[string]string) map[string]string {
	if into == nil {
		into = make(map[string]string, len(from))
	}
	maps.Copy(into, from)
	return into
}
