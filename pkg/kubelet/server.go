package kubelet

// Server answers for all nodes of a host.
type Server struct {
	Port int32
	host *Host
}
