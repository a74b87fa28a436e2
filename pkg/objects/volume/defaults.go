// Package volume holds the defaults and the validation of volumes: those of pods, and the sources that PersistentVolumes share
// with them.
package volume

import (
	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
)

// Default sets the defaults of a pod's volume. A volume without a source is an emptyDir.
func Default(v *corev1.Volume) {
	s := &v.VolumeSource
	if *s == (corev1.VolumeSource{}) {
		s.EmptyDir = &corev1.EmptyDirVolumeSource{}
		return
	}
	if s.Secret != nil {
		setMode(&s.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if s.ConfigMap != nil {
		setMode(&s.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if s.DownwardAPI != nil {
		setMode(&s.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(s.DownwardAPI.Items)
	}
	if s.Projected != nil {
		defaultProjected(s.Projected)
	}
	if s.HostPath != nil && s.HostPath.Type == nil {
		s.HostPath.Type = new(corev1.HostPathUnset)
	}
	if s.Image != nil && s.Image.PullPolicy == "" {
		s.Image.PullPolicy = PullPolicy(s.Image.Reference)
	}
	if s.Ephemeral != nil && s.Ephemeral.VolumeClaimTemplate != nil {
		defaultClaimSpec(&s.Ephemeral.VolumeClaimTemplate.Spec)
	}
	defaultNetworkSource(s)
}

func setMode(mode **int32, value int32) { //nolint:unparam // each source has its own default, although they are equal
	if *mode == nil {
		*mode = &value
	}
}

func setString[S ~string](s *S, value S) {
	if *s == "" {
		*s = value
	}
}

func setPointer[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		if ref := items[i].FieldRef; ref != nil {
			setString(&ref.APIVersion, "v1")
		}
	}
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	setMode(&p.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range p.Sources {
		if d := p.Sources[i].DownwardAPI; d != nil {
			defaultDownward(d.Items)
		}
		if t := p.Sources[i].ServiceAccountToken; t != nil {
			setPointer(&t.ExpirationSeconds, 3600)
		}
	}
}

func defaultClaimSpec(s *corev1.PersistentVolumeClaimSpec) {
	setPointer(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	for _, list := range []corev1.ResourceList{s.Resources.Limits, s.Resources.Requests} {
		for name, q := range list {
			if !q.RoundUp(-3) {
				list[name] = q
			}
		}
	}
}

func defaultNetworkSource(s *corev1.VolumeSource) {
	if s.ISCSI != nil {
		setString(&s.ISCSI.ISCSIInterface, "default")
	}
	if s.RBD != nil {
		setString(&s.RBD.RBDPool, "rbd")
		setString(&s.RBD.RadosUser, "admin")
		setString(&s.RBD.Keyring, "/etc/ceph/keyring")
	}
	if s.AzureDisk != nil {
		setPointer(&s.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		setPointer(&s.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
		setPointer(&s.AzureDisk.FSType, "ext4")
		setPointer(&s.AzureDisk.ReadOnly, false)
	}
	if s.ScaleIO != nil {
		setString(&s.ScaleIO.StorageMode, "ThinProvisioned")
		setString(&s.ScaleIO.FSType, "xfs")
	}
}

// PullPolicy returns the default policy for an image: Always for the tag "latest", which is also the default of an image without tag and
// digest.
func PullPolicy(image string) corev1.PullPolicy {
	ref, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent
	}
	if tagged, ok := reference.TagNameOnly(ref).(reference.Tagged); ok && tagged.Tag() == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}
