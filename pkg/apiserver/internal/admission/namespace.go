package admission

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/minikctl/minikctl/pkg/apiserver/internal/stage"
	"github.com/minikctl/minikctl/pkg/objects"
)

// namespaceLifecycle rejects creates in namespaces that are missing or terminating, and the deletion of the
// namespaces that the cluster needs.
type namespaceLifecycle struct{ reader stage.Reader }

func immortal(namespace string) bool {
	return namespace == metav1.NamespaceDefault || namespace == metav1.NamespaceSystem || namespace == metav1.NamespacePublic
}

// accessReviews are allowed in any namespace: an error would reveal which namespaces exist.
var accessReviews = schema.GroupResource{Group: "authorization.k8s.io", Resource: "localsubjectaccessreviews"}

func (n namespaceLifecycle) check(ctx context.Context, a *stage.Admission) error {
	gr := a.GVR.GroupResource()
	if gr == namespaces {
		if a.Operation == stage.Delete && a.Subresource == "" && immortal(a.Name) {
			return apierrors.NewForbidden(gr, a.Name, errors.New("this namespace may not be deleted"))
		}
		return nil
	}
	if a.Namespace == "" || a.Operation == stage.Delete || a.Operation == stage.Connect || gr == accessReviews {
		return nil
	}
	obj, err := n.reader.Get(ctx, namespaces, objects.Key{Name: a.Namespace})
	if err != nil {
		if apierrors.IsNotFound(err) {
			return err
		}
		return apierrors.NewInternalError(err)
	}
	ns, ok := obj.(*corev1.Namespace)
	if !ok || a.Operation != stage.Create || ns.Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	refused := apierrors.NewForbidden(gr, nameOf(a), fmt.Errorf("unable to create new content in namespace %s because it is being terminated", a.Namespace))
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", a.Namespace),
		Field:   "metadata.namespace",
	})
	return refused
}
