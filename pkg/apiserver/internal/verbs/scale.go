package verbs

import (
	"errors"
	"fmt"
	"math"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
	"github.com/minikctl/minikctl/pkg/objects"
)

// unsetReplicas is the value of spec.replicas in the scale of an object whose field is not set. A client that writes the
// scale must set it.
const unsetReplicas = math.MinInt32

// viewScale returns the scale of an object.
func viewScale(t *table, obj objects.Object) (objects.Object, error) {
	scale, err := scaleOf(t.r, obj)
	if _, ok := errors.AsType[*objects.UnsetReplicas](err); ok {
		return nil, apierrors.NewInternalError(err)
	}
	return scale, err
}

// scaleOf returns the scale of an object. With an error UnsetReplicas, the scale is complete except for spec.replicas.
func scaleOf(r *objects.Resource, obj objects.Object) (scale *autoscalingv1.Scale, err error) {
	if r.Scale.Check != nil {
		err = r.Scale.Check(obj)
	}
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: r.Scale.Spec(obj)},
		Status: autoscalingv1.ScaleStatus{Replicas: r.Scale.Status(obj), Selector: r.Scale.Selector(obj)},
	}, err
}

// writeScale returns the scale of an object for a write: with managedFields.
func writeScale(w *write, obj objects.Object) (objects.Object, error) {
	scale, err := scaleOf(w.r, obj)
	if _, ok := errors.AsType[*objects.UnsetReplicas](err); ok {
		scale.Spec.Replicas = unsetReplicas
	} else if err != nil {
		return nil, err
	}
	entries, err := track.ScaleOf(w.tracked(), obj).Entries()
	scale.SetManagedFields(entries)
	return scale, err
}

// setScale returns a copy of old with the replicas of a scale.
func setScale(w *write, old, view objects.Object) (objects.Object, error) {
	scale, ok := view.(*autoscalingv1.Scale)
	if !ok {
		return nil, wrongType(view)
	}
	if err := w.checkScale(old, scale); err != nil {
		return nil, err
	}
	if scale.UID != "" && scale.UID != old.GetUID() {
		return nil, apierrors.NewConflict(w.gr(), scale.Name,
			preconditionFailed("UID", w.gr(), old.GetNamespace(), old.GetName(), string(scale.UID), string(old.GetUID())))
	}
	obj := old.DeepCopyObject().(objects.Object)
	w.r.Scale.SetSpec(obj, scale.Spec.Replicas)
	entries, err := track.ScaleOf(w.tracked(), old).Back(scale.ManagedFields)
	obj.SetManagedFields(entries)
	return obj, err
}

// checkScale checks the scale that a client writes.
func (w *write) checkScale(old objects.Object, scale *autoscalingv1.Scale) error {
	row := w.r.Scale
	if row.Check != nil && scale.Spec.Replicas == unsetReplicas {
		if e, ok := errors.AsType[*objects.UnsetReplicas](row.Check(old)); ok {
			return apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", e.Path))
		}
	}
	if row.Validate == nil {
		return nil
	}
	if errs := row.Validate(scale); len(errs) > 0 {
		return apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), scale.Name, errs)
	}
	return nil
}
