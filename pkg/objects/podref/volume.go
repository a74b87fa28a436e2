package podref

import corev1 "k8s.io/api/core/v1"

// VolumeNeeds reports whether a node needs a secret to mount a volume.
func VolumeNeeds(pv *corev1.PersistentVolume, namespace, name string) bool {
	v := &pv.Spec.PersistentVolumeSource
	claimNamespace := ""
	if pv.Spec.ClaimRef != nil {
		claimNamespace = pv.Spec.ClaimRef.Namespace
	}
	is := func(ns, secret string) bool { return ns == namespace && secret == name }
	// A reference without a namespace is to a secret in the claim's namespace.
	orClaims := func(r *corev1.SecretReference) bool {
		if r == nil {
			return false
		}
		if r.Namespace == "" {
			return is(claimNamespace, r.Name)
		}
		return is(r.Namespace, r.Name)
	}
	exact := func(r *corev1.SecretReference) bool { return r != nil && is(r.Namespace, r.Name) }
	switch {
	case v.AzureFile != nil:
		if ns := v.AzureFile.SecretNamespace; ns != nil && *ns != "" {
			return is(*ns, v.AzureFile.SecretName)
		}
		return is(claimNamespace, v.AzureFile.SecretName)
	case v.CephFS != nil:
		return orClaims(v.CephFS.SecretRef)
	case v.Cinder != nil:
		return exact(v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		return orClaims(v.FlexVolume.SecretRef)
	case v.RBD != nil:
		return orClaims(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		return orClaims(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		return orClaims(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		r := v.StorageOS.SecretRef
		return r != nil && is(r.Namespace, r.Name)
	case v.CSI != nil:
		return exact(v.CSI.NodePublishSecretRef) || exact(v.CSI.NodeStageSecretRef) || exact(v.CSI.NodeExpandSecretRef)
	}
	return false
}
