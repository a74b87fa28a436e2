package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/objects"
)

// metadataOf returns an object's metadata, without annotations and managed fields, which can be large.
func metadataOf(obj objects.Object) objects.Object {
	out := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
		Generation: obj.GetGeneration(), Labels: obj.GetLabels(), Finalizers: obj.GetFinalizers(), OwnerReferences: obj.GetOwnerReferences(),
		CreationTimestamp: obj.GetCreationTimestamp(), DeletionTimestamp: obj.GetDeletionTimestamp(),
		DeletionGracePeriodSeconds: obj.GetDeletionGracePeriodSeconds(),
	}}
	out.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	return out
}
