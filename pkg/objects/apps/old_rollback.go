package apps

import (
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/minikctl/minikctl/pkg/objects"
)

// The oldest versions have a field rollbackTo, which apps/v1 keeps in an annotation.

func deploymentFromV1beta1(obj runtime.Object) (*appsv1.Deployment, error) {
	d, err := objects.Recode(obj, &appsv1.Deployment{})
	if in, ok := obj.(*appsv1beta1.Deployment); ok && in.Spec.RollbackTo != nil {
		setRollback(d, in.Spec.RollbackTo.Revision)
	}
	return d, err
}

func deploymentToV1beta1(d *appsv1.Deployment) (runtime.Object, error) {
	out, err := objects.Recode(d, &appsv1beta1.Deployment{})
	if revision, ok := rollback(d); ok {
		out.Spec.RollbackTo = &appsv1beta1.RollbackConfig{Revision: revision}
		delete(out.Annotations, appsv1.DeprecatedRollbackTo)
	}
	return out, err
}

func deploymentFromExtensions(obj runtime.Object) (*appsv1.Deployment, error) {
	d, err := objects.Recode(obj, &appsv1.Deployment{})
	if in, ok := obj.(*extensionsv1beta1.Deployment); ok && in.Spec.RollbackTo != nil {
		setRollback(d, in.Spec.RollbackTo.Revision)
	}
	return d, err
}

func deploymentToExtensions(d *appsv1.Deployment) (runtime.Object, error) {
	out, err := objects.Recode(d, &extensionsv1beta1.Deployment{})
	if revision, ok := rollback(d); ok {
		out.Spec.RollbackTo = &extensionsv1beta1.RollbackConfig{Revision: revision}
		delete(out.Annotations, appsv1.DeprecatedRollbackTo)
	}
	return out, err
}

func setRollback(d *appsv1.Deployment, revision int64) {
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[appsv1.DeprecatedRollbackTo] = strconv.FormatInt(revision, 10)
}

func rollback(d *appsv1.Deployment) (int64, bool) {
	revision, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	return revision, err == nil
}
