package schedplugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kube-scheduler/framework"

	objectsvolume "github.com/minikctl/minikctl/pkg/objects/volume"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

var _ scheduler.BindsSimulated = (*volumeBinding)(nil)

// BindSimulated binds the pod's claims in a simulation: those that got a volume to it, as the binder does once the volume names the claim. The
// others stay on the node that their volumes are provisioned for.
func (b *volumeBinding) BindSimulated(_ context.Context, state framework.CycleState, _ *corev1.Pod, node string) {
	all, ok := simulation(b.handle)
	v, waits := b.chosen(state, node)
	if !ok || !waits {
		return
	}
	for _, m := range v.bind {
		pv, claim := objectsvolume.Bind(m.volume, m.claim)
		all.Put(framework.PersistentVolume, pv)
		all.Put(framework.PersistentVolumeClaim, claim)
	}
	for _, claim := range v.provision {
		claim = claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnSelectedNode, node)
		all.Put(framework.PersistentVolumeClaim, claim)
	}
	b.forget(state, node) // of a Reserve in the cycle of a group
}
