package nodemetrics

import (
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Node is what /metrics says of a node.
type Node struct {
	Name                  string
	Pods, Running, Exited int // pods with a running container; containers
	Volumes               []Volume
}

// Volume is the volume of a claim.
type Volume struct {
	Namespace, Claim string
	stats.FsStats
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
	for _, v := range volumeFamilies() {
		for _, n := range nodes {
			for i := range n.Volumes {
				if value := v.value(&n.Volumes[i].FsStats); value != nil {
					out.add(v.family, float64(*value), n.Volumes[i].Namespace, n.Volumes[i].Claim)
				}
			}
		}
	}
	return out
}

type volumeFamily struct {
	family
	value func(*stats.FsStats) *uint64
}

func volumeFamilies() []volumeFamily {
	of := func(name, help string, value func(*stats.FsStats) *uint64) volumeFamily {
		return volumeFamily{gauge("kubelet_volume_stats_"+name, help, "namespace", "persistentvolumeclaim"), value}
	}
	return []volumeFamily{
		of("capacity_bytes", "Capacity in bytes of the volume", func(s *stats.FsStats) *uint64 { return s.CapacityBytes }),
		of("available_bytes", "Number of available bytes in the volume", func(s *stats.FsStats) *uint64 { return s.AvailableBytes }),
		of("used_bytes", "Number of used bytes in the volume", func(s *stats.FsStats) *uint64 { return s.UsedBytes }),
		of("inodes", "Maximum number of inodes in the volume", func(s *stats.FsStats) *uint64 { return s.Inodes }),
		of("inodes_free", "Number of free inodes in the volume", func(s *stats.FsStats) *uint64 { return s.InodesFree }),
		of("inodes_used", "Number of used inodes in the volume", func(s *stats.FsStats) *uint64 { return s.InodesUsed }),
	}
}
