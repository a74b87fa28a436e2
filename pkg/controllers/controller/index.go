package controller

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/objects"
)

var (
	// OrphanPods lists by namespace the pods without a controlling owner.
	OrphanPods = client.NewIndex(OrphanNamespace[*corev1.Pod])

	// PodsByNode lists pods by the name of the node that they are bound to.
	PodsByNode = client.NewIndex(nodeName)
)

// OrphanNamespace returns the namespace of an object without a controlling owner, and nothing for any other object. It
// makes an index of orphans by namespace.
func OrphanNamespace[T objects.Object](obj T) []string {
	if metav1.GetControllerOfNoCopy(obj) != nil {
		return nil
	}
	return []string{obj.GetNamespace()}
}

func nodeName(p *corev1.Pod) []string {
	if p.Spec.NodeName == "" {
		return nil
	}
	return []string{p.Spec.NodeName}
}
