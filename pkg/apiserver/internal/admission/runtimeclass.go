package admission

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// runtimeClass sets the overhead and scheduling constraints of a pod's runtime class.
type runtimeClass struct{ reader stage.Reader }

func (runtimeClass) Name() string { return "RuntimeClass" }

func (r runtimeClass) Mutate(ctx context.Context, a *stage.Admission) error {
	pod, ok := podOf(a)
	if !ok || a.Operation != stage.Create {
		return nil
	}
	class, err := r.find(ctx, a, pod)
	if err != nil || class == nil {
		return err
	}
	if class.Overhead != nil {
		if len(pod.Spec.Overhead) > 0 && !apiequality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
			return forbid(a, otherOverhead)
		}
		pod.Spec.Overhead = class.Overhead.PodFixed.DeepCopy()
	}
	if class.Scheduling == nil {
		return nil
	}
	for key, value := range class.Scheduling.NodeSelector {
		if own, ok := pod.Spec.NodeSelector[key]; ok && own != value {
			return forbid(a, "conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s", key, value, key, own)
		}
	}
	if len(class.Scheduling.NodeSelector) > 0 {
		pod.Spec.NodeSelector = merged(pod.Spec.NodeSelector, class.Scheduling.NodeSelector)
	}
	pod.Spec.Tolerations = mergeTolerations(slices.Concat(pod.Spec.Tolerations, class.DeepCopy().Scheduling.Tolerations))
	return nil
}

const otherOverhead = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"

// mergeTolerations returns the tolerations that no other one includes, and the first of equal ones.
func mergeTolerations(all []corev1.Toleration) []corev1.Toleration {
	var out []corev1.Toleration
	for i, t := range all {
		has := func(other corev1.Toleration) bool {
			return apiequality.Semantic.DeepEqual(other, t) || contains(other, t)
		}
		wider := func(other corev1.Toleration) bool {
			return !apiequality.Semantic.DeepEqual(other, t) && contains(other, t)
		}
		if !slices.ContainsFunc(out, has) && !slices.ContainsFunc(all[i+1:], wider) {
			out = append(out, t)
		}
	}
	return out
}

// contains reports whether t tolerates every taint that u tolerates.
func contains(t, u corev1.Toleration) bool {
	switch {
	case t.Key != u.Key && (t.Key != "" || t.Operator != corev1.TolerationOpExists):
		return false
	case t.Effect != u.Effect && t.Effect != "":
		return false
	case t.Effect == corev1.TaintEffectNoExecute && t.TolerationSeconds != nil && (u.TolerationSeconds == nil || *u.TolerationSeconds > *t.TolerationSeconds):
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return u.Operator == corev1.TolerationOpEqual && u.Value == t.Value
	}
	return false
}

func (r runtimeClass) Validate(ctx context.Context, a *stage.Admission) error {
	pod, ok := podOf(a)
	if !ok || a.Operation != stage.Create {
		return nil
	}
	class, err := r.find(ctx, a, pod)
	if err != nil {
		return err
	}
	if class == nil || class.Overhead == nil {
		if pod.Spec.Overhead != nil {
			return forbid(a, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
		}
		return nil
	}
	if !apiequality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
		return forbid(a, otherOverhead)
	}
	return nil
}

// find returns the runtime class of a pod, or nil if it names none.
func (r runtimeClass) find(ctx context.Context, a *stage.Admission, pod *corev1.Pod) (*nodev1.RuntimeClass, error) {
	if pod.Spec.RuntimeClassName == nil {
		return nil, nil
	}
	name := *pod.Spec.RuntimeClassName
	obj, err := r.reader.Get(ctx, runtimeClasses, objects.Key{Name: name})
	if apierrors.IsNotFound(err) {
		return nil, forbid(a, "pod rejected: RuntimeClass %q not found", name)
	}
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	class, ok := obj.(*nodev1.RuntimeClass)
	if !ok {
		return nil, forbid(a, "unexpected type %T", obj)
	}
	return class, nil
}
