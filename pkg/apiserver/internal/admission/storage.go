package admission

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// The annotations that mark a default class, and the old one that names a class.
const (
	defaultStorageAnnotation     = "storageclass.kubernetes.io/is-default-class"
	betaDefaultStorageAnnotation = "storageclass.beta.kubernetes.io/is-default-class"
	ingressClassAnnotation       = "kubernetes.io/ingress.class"
)

// defaultStorageClass sets the default class of a claim that names none.
type defaultStorageClass struct{ reader stage.Reader }

func (defaultStorageClass) Name() string { return "DefaultStorageClass" }

func (d defaultStorageClass) Mutate(ctx context.Context, a *stage.Admission) error {
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	if !ok || a.Operation != stage.Create || a.Subresource != "" || claim.Spec.StorageClassName != nil {
		return nil
	}
	if _, named := claim.Annotations[corev1.BetaStorageClassAnnotation]; named {
		return nil
	}
	class, err := defaultClass(ctx, d.reader, storageClasses, defaultStorageAnnotation, betaDefaultStorageAnnotation)
	if err != nil || class == "" {
		return err
	}
	claim.Spec.StorageClassName = &class
	return nil
}

// defaultIngressClass sets the default class of an Ingress that names none.
type defaultIngressClass struct{ reader stage.Reader }

func (defaultIngressClass) Name() string { return "DefaultIngressClass" }

func (d defaultIngressClass) Mutate(ctx context.Context, a *stage.Admission) error {
	ingress, ok := a.Object.(*networkingv1.Ingress)
	if !ok || a.Operation != stage.Create || a.Subresource != "" || ingress.Spec.IngressClassName != nil {
		return nil
	}
	if _, named := ingress.Annotations[ingressClassAnnotation]; named {
		return nil
	}
	class, err := defaultClass(ctx, d.reader, ingressClasses, networkingv1.AnnotationIsDefaultIngressClass)
	if err != nil || class == "" {
		return err
	}
	ingress.Spec.IngressClassName = &class
	return nil
}

// defaultClass returns the name of the newest class with one of the annotations, or "".
func defaultClass(ctx context.Context, r stage.Reader, gr schema.GroupResource, annotations ...string) (string, error) {
	counters, err := r.Counters(ctx, gr)
	if err != nil || counters.Count == 0 {
		return "", err
	}
	all, err := r.List(ctx, gr, "")
	if err != nil {
		return "", apierrors.NewInternalError(err)
	}
	marked := slices.DeleteFunc(all, func(obj objects.Object) bool {
		return !slices.ContainsFunc(annotations, func(key string) bool { return obj.GetAnnotations()[key] == "true" })
	})
	if len(marked) == 0 {
		return "", nil
	}
	return slices.MinFunc(marked, func(a, b objects.Object) int {
		x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(y.Compare(x.Time), cmp.Compare(a.GetName(), b.GetName()))
	}).GetName(), nil
}

// objectInUse adds the protection finalizers to claims and volumes.
type objectInUse struct{}

func (objectInUse) Name() string { return "StorageObjectInUseProtection" }

// The protection finalizers.
const (
	volumeProtection = "kubernetes.io/pv-protection"
	claimProtection  = "kubernetes.io/pvc-protection"
)

func (objectInUse) Mutate(_ context.Context, a *stage.Admission) error {
	if a.Operation != stage.Create || a.Subresource != "" {
		return nil
	}
	finalizer := ""
	switch a.Object.(type) {
	case *corev1.PersistentVolume:
		finalizer = volumeProtection
	case *corev1.PersistentVolumeClaim:
		finalizer = claimProtection
	default:
		return nil
	}
	if has := a.Object.GetFinalizers(); !slices.Contains(has, finalizer) {
		a.Object.SetFinalizers(append(has, finalizer))
	}
	return nil
}

// claimResize rejects the growth of a claim that is not bound or whose class does not allow expansion.
type claimResize struct{ reader stage.Reader }

func (claimResize) Name() string { return "PersistentVolumeClaimResize" }

func (c claimResize) Validate(ctx context.Context, a *stage.Admission) error {
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	if !ok || a.Operation != stage.Update || a.Subresource != "" {
		return nil
	}
	old, ok := a.Old.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	size, was := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.Cmp(was) <= 0 {
		return nil
	}
	if old.Status.Phase != corev1.ClaimBound {
		return forbid(a, "Only bound persistent volume claims can be expanded")
	}
	class := classOf(claim)
	if class == "" || class != classOf(old) || !c.expands(ctx, class) {
		return forbid(a, "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize")
	}
	return nil
}

func (c claimResize) expands(ctx context.Context, name string) bool {
	obj, err := c.reader.Get(ctx, storageClasses, objects.Key{Name: name})
	if err != nil {
		return false
	}
	class, ok := obj.(*storagev1.StorageClass)
	return ok && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}

func classOf(claim *corev1.PersistentVolumeClaim) string {
	if class, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return class
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}
