package kubelet

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/minikctl/minikctl/pkg/kubelet/internal/eviction"
)

// claimStats returns the statistics of the volumes of a pod's claims: those of the file systems that hold their directories, as Kubernetes has for
// volumes of the type local. Those of the type hostPath, which have none there, have them here: the cluster's own provisioner makes these.
func (k *Kubelet) claimStats(ctx context.Context, pod *corev1.Pod) []stats.VolumeStats {
	var out []stats.VolumeStats
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
			continue
		}
		claim, pv, err := k.claimOf(ctx, pod, v)
		if err != nil {
			continue // the pod's Events say why it does not start without it
		}
		directory := ""
		switch {
		case pv.Spec.HostPath != nil:
			directory = pv.Spec.HostPath.Path
		case pv.Spec.Local != nil:
			directory = pv.Spec.Local.Path
		}
		if directory == "" {
			continue // a pod with such a volume does not start
		}
		p := k.readPressure(directory)
		if p.disk.capacity == 0 {
			continue // the system does not say it
		}
		used := eviction.Disk{Bytes: p.disk.capacity - p.disk.available, Inodes: p.inodes.capacity - p.inodes.available}
		out = append(out, stats.VolumeStats{
			Name: v.Name, PVCRef: &stats.PVCReference{Namespace: claim.Namespace, Name: claim.Name}, FsStats: *p.files(k.host.machineClock().Now(), used),
		})
	}
	return out
}

// allClaimStats returns the statistics of the claims of the node's running pods, each claim once.
func (k *Kubelet) allClaimStats(ctx context.Context) []stats.VolumeStats {
	if k.Tier.Simulated || k.down() {
		return nil
	}
	all := map[stats.PVCReference]stats.VolumeStats{}
	for _, p := range k.runningPods("") {
		if pod, ok := k.host.pod(p.key()); ok && pod.UID == p.UID {
			for _, s := range k.claimStats(ctx, pod) {
				all[*s.PVCRef] = s
			}
		}
	}
	return slices.Collect(maps.Values(all))
}
