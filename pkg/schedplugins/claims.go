package schedplugins

import (
	"context"
	"errors"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// missingClaim is the error about a claim that does not exist.
type missingClaim string

func (m missingClaim) Error() string {
	return fmt.Sprintf("persistentvolumeclaim %q not found", string(m))
}

// simulation returns the objects of the simulation that the plugin runs in; false: it runs for a cluster.
func simulation(h framework.Handle) (scheduler.SimulatedObjects, bool) {
	if api, ok := h.(scheduler.APIHandle); ok {
		return api.Simulated()
	}
	return scheduler.SimulatedObjects{}, false
}

// simulated reports whether the plugin runs in a simulation.
func simulated(h framework.Handle) bool {
	_, ok := simulation(h)
	return ok
}

// given returns an object of a simulation, and the API's error if there is none.
func given[T objects.Object](from scheduler.SimulatedObjects, of framework.EventResource, namespace, name string) (out T, err error) {
	obj, ok := from.Get(of, objects.Key{Namespace: namespace, Name: name})
	if !ok {
		return out, apierrors.NewNotFound(schema.GroupResource{Resource: string(of)}, name)
	}
	return obj.(T), nil
}

// claimOf returns a claim, and a missingClaim if there is none of the name.
func claimOf(ctx context.Context, h framework.Handle, namespace, name string) (claim *corev1.PersistentVolumeClaim, err error) {
	if from, ok := simulation(h); ok {
		claim, err = given[*corev1.PersistentVolumeClaim](from, framework.PersistentVolumeClaim, namespace, name)
	} else {
		claim, err = h.ClientSet().CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return nil, missingClaim(name)
	}
	return claim, err
}

// volumeOf returns a volume.
func volumeOf(ctx context.Context, h framework.Handle, name string) (*corev1.PersistentVolume, error) {
	if from, ok := simulation(h); ok {
		return given[*corev1.PersistentVolume](from, framework.PersistentVolume, "", name)
	}
	return h.ClientSet().CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
}

// volumes yields all volumes.
func volumes(ctx context.Context, h framework.Handle) (iter.Seq[*corev1.PersistentVolume], error) {
	if from, ok := simulation(h); ok {
		return func(yield func(*corev1.PersistentVolume) bool) {
			for obj := range from.All(framework.PersistentVolume) {
				if !yield(obj.(*corev1.PersistentVolume)) {
					return
				}
			}
		}, nil
	}
	list, err := h.ClientSet().CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return func(yield func(*corev1.PersistentVolume) bool) {
		for i := range list.Items {
			if !yield(&list.Items[i]) {
				return
			}
		}
	}, nil
}

// storageClassOf returns a StorageClass.
func storageClassOf(ctx context.Context, h framework.Handle, name string) (*storagev1.StorageClass, error) {
	if from, ok := simulation(h); ok {
		return given[*storagev1.StorageClass](from, framework.StorageClass, "", name)
	}
	return h.ClientSet().StorageV1().StorageClasses().Get(ctx, name, metav1.GetOptions{})
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
