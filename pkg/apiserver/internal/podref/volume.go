package podref

import corev1 "k8s.io/api/core/v1"

// VolumeNeeds reports whether a node that mounts a volume needs a secret for it.
func VolumeNeeds(pv *corev1.PersistentVolume, namespace, name string) bool {
	v := &pv.Spec.PersistentVolumeSource
	home := ""
	if pv.Spec.ClaimRef != nil {
		home = pv.Spec.ClaimRef.Namespace
	}
	is := func(ns, secret string) bool { return ns == namespace && secret == name }
	// Volumes that are older than the namespaces of these references mean their claim's.
	orHome := func(r *corev1.SecretReference) bool {
		if r == nil {
			return false
		}
		if r.Namespace == "" {
			return is(home, r.Name)
		}
		return is(r.Namespace, r.Name)
	}
	exact := func(r *corev1.SecretReference) bool { return r != nil && is(r.Namespace, r.Name) }
	switch {
	case v.AzureFile != nil:
		if ns := v.AzureFile.SecretNamespace; ns != nil && *ns != "" {
			return is(*ns, v.AzureFile.SecretName)
		}
		return is(home, v.AzureFile.SecretName)
	case v.CephFS != nil:
		return orHome(v.CephFS.SecretRef)
	case v.Cinder != nil:
		return exact(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		return orHome(v.FlexVolume.SecretRef)
	case v.RBD != nil:
		return orHome(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		return orHome(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		return orHome(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		r := v.StorageOS.SecretRef
		return r != nil && is(r.Namespace, r.Name)
	case v.CSI != nil:
		return exact(v.CSI.NodePublishSecretRef) || exact(v.CSI.NodeStageSecretRef) || exact(v.CSI.NodeExpandSecretRef)
	}
	return false
}
