package podref

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Resource returns the resource of an API object that the pod refers to, in the words of Kubernetes, or "" if there is none. Pods without a
// reference are those that a node may run on its own.
func Resource(pod *corev1.Pod) (string, error) {
	switch {
	case pod.Spec.ServiceAccountName != "":
		return "serviceaccounts", nil
	case Any(Secrets(pod)):
		return "secrets", nil
	case Any(ConfigMaps(pod)):
		return "configmaps", nil
	case len(pod.Spec.ResourceClaims) > 0:
		return "resourceclaims", nil
	}
	for i := range pod.Spec.Volumes {
		if what, err := volumeReferences(&pod.Spec.Volumes[i]); what != "" || err != nil {
			return what, err
		}
	}
	return "", nil
}

func volumeReferences(v *corev1.Volume) (string, error) {
	switch {
	case v.ConfigMap != nil:
		return "configmaps (via configmap volumes)", nil
	case v.Secret != nil:
		return "secrets (via secret volumes)", nil
	case v.CSI != nil:
		return "csidrivers (via CSI volumes)", nil
	case v.Glusterfs != nil:
		return "endpoints (via glusterFS volumes)", nil
	case v.PersistentVolumeClaim != nil:
		return "persistentvolumeclaims", nil
	case v.Ephemeral != nil:
		return "persistentvolumeclaims (via ephemeral volumes)", nil
	case v.AzureFile != nil:
		return "secrets (via azureFile volumes)", nil
	case v.Projected == nil:
		return "", nil
	}
	for _, s := range v.Projected.Sources {
		switch {
		case s.ConfigMap != nil:
			return "configmaps (via projected volumes)", nil
		case s.Secret != nil:
			return "secrets (via projected volumes)", nil
		case s.ServiceAccountToken != nil:
			return "serviceaccounts (via projected volumes)", nil
		case s.ClusterTrustBundle != nil:
			return "clustertrustbundles", nil
		case s.PodCertificate != nil:
			return "podcertificates", nil
		case s.DownwardAPI == nil:
			return "", fmt.Errorf("unknown source for projected volume %q", v.Name)
		}
	}
	return "", nil
}
