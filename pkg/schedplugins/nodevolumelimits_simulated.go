package schedplugins

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/objects"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// simulatedFinder finds the objects of a resource in a simulation.
type simulatedFinder[T objects.Object] struct {
	all      scheduler.SimulatedObjects
	resource framework.EventResource
}

func (f simulatedFinder[T]) Get(key objects.Key) (out T, ok bool) {
	obj, ok := f.all.Get(f.resource, key)
	if ok {
		out = obj.(T)
	}
	return out, ok
}

// simulatedStorage returns the objects of a simulation. Claims that are bound or provisioned in it count on the nodes of their pods. What is attached stays
// attached: a simulation does not attach or detach volumes.
func simulatedStorage(all scheduler.SimulatedObjects) *storageObjects {
	attached := sync.OnceValue(func() map[string][]*storagev1.VolumeAttachment {
		byNode := map[string][]*storagev1.VolumeAttachment{}
		for _, obj := range all.List(framework.VolumeAttachment) {
			a := obj.(*storagev1.VolumeAttachment)
			byNode[a.Spec.NodeName] = append(byNode[a.Spec.NodeName], a)
		}
		return byNode
	})
	return &storageObjects{
		nodes:       simulatedFinder[*storagev1.CSINode]{all, framework.CSINode},
		classes:     simulatedFinder[*storagev1.StorageClass]{all, framework.StorageClass},
		claims:      simulatedFinder[*corev1.PersistentVolumeClaim]{all, framework.PersistentVolumeClaim},
		volumes:     simulatedFinder[*corev1.PersistentVolume]{all, framework.PersistentVolume},
		attachments: func(node string) []*storagev1.VolumeAttachment { return attached()[node] },
	}
}
