package verbs

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// statusSuccess is the result of a subresource that returns no object.
func statusSuccess() Result {
	return Result{Created: true, Other: &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
	}}
}

// bind assigns a pod to a node (pods/binding).
func bind(ctx context.Context, w *write, obj runtime.Object) (Result, error) {
	b, ok := obj.(*corev1.Binding)
	if !ok {
		return Result{}, wrongType(obj)
	}
	if b.Name != w.req.Name {
		return Result{}, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	}
	if err := checkBinding(b); err != nil {
		return Result{}, err
	}
	w.sub = b
	a := w.admission(stage.Create, b, nil)
	if err := w.mutate(ctx, a); err != nil {
		return Result{}, err
	}
	if err := w.validate(ctx, a); err != nil {
		return Result{}, err
	}
	_, err := w.replaceStored(ctx, func(old objects.Object) (objects.Object, error) {
		pod := copyForBinding(old.(*corev1.Pod))
		return pod, w.assign(pod, b)
	})
	if err != nil {
		return Result{}, err
	}
	return statusSuccess(), nil
}

// copyForBinding copies what a binding changes of a pod. The rest is shared with it.
func copyForBinding(pod *corev1.Pod) *corev1.Pod {
	next := *pod
	next.ObjectMeta = *pod.ObjectMeta.DeepCopy()
	next.Status.Conditions = slices.Clone(pod.Status.Conditions)
	return &next
}

// bindByName assigns the pod of a Binding's name to a node (bindings, which is older than pods/binding).
func bindByName(ctx context.Context, w *write, obj runtime.Object) (Result, error) {
	b, ok := obj.(*corev1.Binding)
	if !ok {
		return Result{}, wrongType(obj)
	}
	wipeSystemFields(b)
	var err error
	if w.table, err = w.Engine.tableOf(schema.GroupResource{Resource: "pods"}); err != nil {
		return Result{}, err
	}
	w.req.Name = b.Name
	return bind(ctx, w, b)
}

func checkBinding(b *corev1.Binding) error {
	var errs field.ErrorList
	target := field.NewPath("target")
	if k := b.Target.Kind; k != "" && k != "Node" {
		errs = append(errs, field.NotSupported(target.Child("kind"), k, []string{"Node", "<empty>"}))
	}
	if b.Target.Name == "" {
		errs = append(errs, field.Required(target.Child("name"), ""))
	}
	if len(errs) == 0 {
		return nil
	}
	return plainStatus(errs.ToAggregate())
}

// assign sets the node of a pod, and the annotations and labels of its binding.
func (w *write) assign(pod *corev1.Pod, b *corev1.Binding) error {
	if b.UID != "" && b.UID != pod.UID {
		return apierrors.NewConflict(w.gr(), pod.Name, preconditionFailed("UID", w.gr(), pod.Namespace, pod.Name, string(b.UID), string(pod.UID)))
	}
	if b.ResourceVersion != "" && b.ResourceVersion != pod.ResourceVersion {
		return apierrors.NewConflict(w.gr(), pod.Name, preconditionFailed("ResourceVersion", w.gr(), pod.Namespace, pod.Name, b.ResourceVersion, pod.ResourceVersion))
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return w.bindConflict(pod, fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name))
	case pod.Spec.NodeName != "":
		return w.bindConflict(pod, fmt.Errorf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName))
	case len(pod.Spec.SchedulingGates) > 0:
		return w.bindConflict(pod, fmt.Errorf("pod %s has non-empty .spec.schedulingGates", pod.Name))
	}
	pod.Spec.NodeName = b.Target.Name
	pod.Status.NominatedNodeName = "" // a nomination ends with the binding
	for k, v := range b.Annotations {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[k] = v
	}
	for k, v := range b.Labels { // copied from the node by admission
		if _, ok := pod.Labels[k]; ok {
			continue
		}
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels[k] = v
	}
	w.setScheduled(pod)
	return nil
}

func (w *write) bindConflict(pod *corev1.Pod, reason error) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, pod.Name, reason)
}

// setScheduled sets the PodScheduled condition.
func (w *write) setScheduled(pod *corev1.Pod) {
	now := metav1.NewTime(w.config.Clock.Now())
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type != corev1.PodScheduled {
			continue
		}
		if c.Status != corev1.ConditionTrue {
			c.LastTransitionTime = now
		}
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "", ""
		return
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: now,
	})
}
