package nodemetrics

import stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

// Node is what /metrics says of a node.
type Node struct {
	Name                  string
	Pods, Running, Exited int // pods with a running container; containers
	Claims                []stats.VolumeStats
}

// Nodes returns the metrics of /metrics about nodes.
func Nodes(nodes []Node) Samples {
	var out Samples
	var pods, running, exited int
	for _, n := range nodes {
		out.add(gauge("kubelet_node_name", "The node's name. The count is always 1.", "node"), 1, n.Name)
		pods, running, exited = pods+n.Pods, running+n.Running, exited+n.Exited
	}
	out.add(gauge("kubelet_running_pods", "Number of pods that have a running pod sandbox"), float64(pods))
	containers := gauge("kubelet_running_containers", "Number of containers currently running", "container_state")
	out.add(containers, float64(running), "running")
	out.add(containers, float64(exited), "exited")
	out.addClaims(nodes)
	return out
}

// addClaims adds the metrics of the volumes of claims. A claim that pods of several nodes use has them once.
func (s *Samples) addClaims(nodes []Node) {
	families := []struct {
		family
		value func(*stats.VolumeStats) *uint64
	}{
		{claimGauge("capacity_bytes", "Capacity in bytes of the volume"), func(v *stats.VolumeStats) *uint64 { return v.CapacityBytes }},
		{claimGauge("available_bytes", "Number of available bytes in the volume"), func(v *stats.VolumeStats) *uint64 { return v.AvailableBytes }},
		{claimGauge("used_bytes", "Number of used bytes in the volume"), func(v *stats.VolumeStats) *uint64 { return v.UsedBytes }},
		{claimGauge("inodes", "Maximum number of inodes in the volume"), func(v *stats.VolumeStats) *uint64 { return v.Inodes }},
		{claimGauge("inodes_free", "Number of free inodes in the volume"), func(v *stats.VolumeStats) *uint64 { return v.InodesFree }},
		{claimGauge("inodes_used", "Number of used inodes in the volume"), func(v *stats.VolumeStats) *uint64 { return v.InodesUsed }},
	}
	seen := map[stats.PVCReference]bool{}
	for _, n := range nodes {
		for i := range n.Claims {
			v := &n.Claims[i]
			if seen[*v.PVCRef] {
				continue
			}
			seen[*v.PVCRef] = true
			for _, f := range families {
				s.add(f.family, float64(*f.value(v)), v.PVCRef.Namespace, v.PVCRef.Name)
			}
		}
	}
}

func claimGauge(name, help string) family {
	return gauge("kubelet_volume_stats_"+name, help, "namespace", "persistentvolumeclaim")
}
