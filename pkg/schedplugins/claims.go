package schedplugins

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// missingClaim is the error about a claim that does not exist.
type missingClaim string

func (m missingClaim) Error() string {
	return fmt.Sprintf("persistentvolumeclaim %q not found", string(m))
}

// simulated reports whether the plugin is that of a simulation, in which there are no claims and volumes.
func simulated(h framework.Handle) bool {
	api, ok := h.(scheduler.APIHandle)
	return ok && api.Client() == nil
}

// claimOf returns a claim, and a missingClaim if there is none of the name.
func claimOf(ctx context.Context, h framework.Handle, namespace, name string) (*corev1.PersistentVolumeClaim, error) {
	claim, err := h.ClientSet().CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, missingClaim(name)
	}
	return claim, err
}

// notFound returns the status for an error of claimOf: a pod whose claim is missing is unschedulable.
func notFound(err error) *framework.Status {
	if missing, ok := errors.AsType[missingClaim](err); ok {
		return framework.NewStatus(framework.UnschedulableAndUnresolvable, missing.Error())
	}
	return framework.AsStatus(err)
}

// signUnclaimed signs only pods without claims: the results for others depend on objects that change without the pod.
func signUnclaimed(pod *corev1.Pod) ([]framework.SignFragment, *framework.Status) {
	if names, _ := claimNames(pod); len(names) > 0 {
		return nil, framework.NewStatus(framework.Unschedulable, "pods with persistent volume claims are not signed")
	}
	return signature(framework.VolumesSignerName, nil)
}
