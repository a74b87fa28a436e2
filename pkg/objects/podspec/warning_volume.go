package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/objects/volume"
)

// volumes warns about removed volume types, and about overlapping files in a volume.
func (w *warner) volumes() {
	for i := range w.spec.Volumes {
		v, at := &w.spec.Volumes[i], w.at.Child("spec", "volumes").Index(i)
		old := func(there bool, name, msg string) {
			if there {
				w.warn(at.Child(name), "%s", msg)
			}
		}
		old(v.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+")
		old(v.GitRepo != nil, "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+")
		old(v.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+")
		old(v.Flocker != nil, "flocker", "deprecated in v1.22, non-functional in v1.25+")
		old(v.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+")
		old(v.Quobyte != nil, "quobyte", "deprecated in v1.22, non-functional in v1.25+")
		old(v.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+")
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			for _, msg := range volume.ClaimWarnings(&v.Ephemeral.VolumeClaimTemplate.Spec, at.Child("ephemeral", "volumeClaimTemplate", "spec")) {
				w.add(msg)
			}
		}
		old(v.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+")
		old(v.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+")
	}
	for i := range w.spec.Volumes {
		w.overlaps(&w.spec.Volumes[i])
	}
}

// file is a path in a volume with its source, if the volume has several.
type file struct{ path, source string }

func (f file) String() string {
	if f.source == "" {
		return fmt.Sprintf("%q", f.path)
	}
	return fmt.Sprintf("%q (%s)", f.path, f.source)
}

// overlaps warns about files of a volume whose paths are equal or below one another.
func (w *warner) overlaps(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		w.overlapping(v.Name, fmt.Sprintf("ConfigMap %q", v.ConfigMap.Name), keyFiles(v.ConfigMap.Items, ""), nil)
	case v.Secret != nil:
		w.overlapping(v.Name, fmt.Sprintf("Secret %q", v.Secret.SecretName), keyFiles(v.Secret.Items, ""), nil)
	case v.DownwardAPI != nil:
		w.overlapping(v.Name, "DownwardAPI", fieldFiles(v.DownwardAPI.Items, ""), nil)
	case v.Projected != nil:
		var files []file
		for i := range v.Projected.Sources {
			if v.Projected.Sources[i] == (corev1.VolumeProjection{}) {
				w.add(fmt.Sprintf("volume %q (Projected) has no sources provided", v.Name))
			}
			files = w.overlapping(v.Name, "Projected", projectedFiles(&v.Projected.Sources[i]), files)
		}
	}
}

func keyFiles(items []corev1.KeyToPath, source string) []file {
	out := make([]file, len(items))
	for i := range items {
		out[i] = file{items[i].Path, source}
	}
	return out
}

func fieldFiles(items []corev1.DownwardAPIVolumeFile, source string) []file {
	out := make([]file, len(items))
	for i := range items {
		out[i] = file{items[i].Path, source}
	}
	return out
}

func projectedFiles(p *corev1.VolumeProjection) []file {
	switch {
	case p.ConfigMap != nil && p.ConfigMap.Items != nil:
		return keyFiles(p.ConfigMap.Items, fmt.Sprintf("ConfigMap %q", p.ConfigMap.Name))
	case p.Secret != nil && p.Secret.Items != nil:
		return keyFiles(p.Secret.Items, fmt.Sprintf("Secret %q", p.Secret.Name))
	case p.DownwardAPI != nil && p.DownwardAPI.Items != nil:
		return fieldFiles(p.DownwardAPI.Items, "DownwardAPI")
	case p.ServiceAccountToken != nil:
		return []file{{p.ServiceAccountToken.Path, "ServiceAccountToken"}}
	case p.ClusterTrustBundle != nil:
		name := ""
		if b := p.ClusterTrustBundle; b.Name != nil {
			name = *b.Name
		} else if b.SignerName != nil {
			name = *b.SignerName
		}
		return []file{{p.ClusterTrustBundle.Path, fmt.Sprintf("ClusterTrustBundle %q", name)}}
	case p.PodCertificate != nil:
		return []file{
			{p.PodCertificate.CertificateChainPath, "PodCertificate chain"}, {p.PodCertificate.KeyPath, "PodCertificate key"},
			{p.PodCertificate.CredentialBundlePath, "PodCertificate credential bundle"},
		}
	}
	return nil
}

// overlapping compares each file with known and earlier ones, and returns all of them.
func (w *warner) overlapping(name, what string, files, known []file) []file {
	for _, f := range files {
		f.path = strings.TrimRight(f.path, "/")
		if f.path == "" {
			continue
		}
		for _, o := range known {
			if w.full() {
				return known
			}
			if strings.HasPrefix(o.path+"/", f.path+"/") || strings.HasPrefix(f.path+"/", o.path+"/") {
				w.add(fmt.Sprintf("volume %q (%s): overlapping paths: %s with %s", name, what, f, o))
			}
		}
		known = append(known, f)
	}
	return known
}
