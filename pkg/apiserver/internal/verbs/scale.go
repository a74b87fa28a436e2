package verbs

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/track"
	"github.com/minikctl/minikctl/pkg/objects"
)

// viewScale returns the scale of an object.
func viewScale(t *table, obj objects.Object) (objects.Object, error) {
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: t.r.Scale.Spec(obj)},
		Status: autoscalingv1.ScaleStatus{Replicas: t.r.Scale.Status(obj), Selector: t.r.Scale.Selector(obj)},
	}, nil
}

// writeScale returns the scale of an object as writes see it: with who has set the replicas.
func writeScale(w *write, obj objects.Object) (objects.Object, error) {
	scale, err := viewScale(w.table, obj)
	if err != nil {
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
	errs := validation.ValidateObjectMeta(&scale.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if scale.Spec.Replicas < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0"))
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), scale.Name, errs)
	}
	if scale.UID != "" && scale.UID != old.GetUID() {
		gr := w.gr()
		gr.Resource += "/scale"
		return nil, apierrors.NewConflict(gr, scale.Name, fmt.Errorf(
			"Precondition failed: UID in precondition: %v, UID in object meta: %v", scale.UID, old.GetUID()))
	}
	obj := old.DeepCopyObject().(objects.Object)
	w.r.Scale.SetSpec(obj, scale.Spec.Replicas)
	entries, err := track.ScaleOf(w.tracked(), old).Back(scale.ManagedFields)
	obj.SetManagedFields(entries)
	return obj, err
}
