package nodemetrics

// Node is what /metrics says of a node.
type Node struct {
	Name                  string
	Pods, Running, Exited int // pods with a running container; containers
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
	return out
}
