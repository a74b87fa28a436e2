package schedplugins

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/kube-scheduler/framework"

	objectsstorage "github.com/minikctl/minikctl/pkg/objects/storage"
	objectsvolume "github.com/minikctl/minikctl/pkg/objects/volume"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

var _ scheduler.BindsSimulated = (*volumeBinding)(nil)

// BindSimulated binds the pod's claims in a simulation: those that got a volume to it, as the binder does once the volume names the claim. The
// others get a volume of the cluster's own provisioner, or stay on the node that another provisioner makes their volumes for.
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
		if pv := b.dirVolume(claim, node); pv != nil {
			pv, claim = objectsvolume.Bind(pv, claim)
			all.Put(framework.PersistentVolume, pv)
		}
		all.Put(framework.PersistentVolumeClaim, claim)
	}
	b.forget(state, node) // of a Reserve in the cycle of a group
}

// dirVolume returns the volume that the cluster's own provisioner makes for a claim on a node, nil if the claim has another one.
func (b *volumeBinding) dirVolume(claim *corev1.PersistentVolumeClaim, node string) *corev1.PersistentVolume {
	all, _ := simulation(b.handle)
	class, err := given[*storagev1.StorageClass](all, framework.StorageClass, "", volume.GetPersistentVolumeClaimClass(claim))
	if err != nil || class.Provisioner != objectsstorage.DirProvisioner {
		return nil
	}
	info, err := b.handle.SnapshotSharedLister().NodeInfos().Get(node)
	if err != nil {
		return nil
	}
	v := objectsstorage.DirVolume(claim, class, info.Node(), "")
	v.Name = "pvc-" + claim.Namespace + "-" + claim.Name
	return v
}

// neverProvisioned returns why no volume will be made for one of the claims, as the provisioner's event says it. In a cluster the pod waits for the volume on
// the node that was chosen for it; in a simulation, which does not wait, it has no node. "": they may be provisioned.
func (b *volumeBinding) neverProvisioned(claims []*corev1.PersistentVolumeClaim, classes map[string]*storagev1.StorageClass) string {
	if len(claims) == 0 || !simulated(b.handle) {
		return ""
	}
	for _, claim := range claims {
		class := classes[volume.GetPersistentVolumeClaimClass(claim)]
		if _, err := objectsstorage.DriverOf(class.Provisioner); err != nil {
			return err.Error()
		}
		if class.Provisioner == objectsstorage.DirProvisioner {
			if err := objectsstorage.DirRefuses(claim, class); err != nil {
				return fmt.Sprintf("failed to provision volume with StorageClass %q: %v", class.Name, err)
			}
		}
	}
	return ""
}
