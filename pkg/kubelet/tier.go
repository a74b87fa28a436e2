package kubelet

// Tier says what kind of runtime a node has and what the kubelet can ask of it.
type Tier struct {
	Name    string // "process", "sim": it is on the node as the label minikctl.dev/runtime
	Version string // shown in the node's containerRuntimeVersion

	// Simulated containers are not real: nothing is resolved, written or probed for them.
	Simulated bool
}

// The tiers there are.
var (
	// Process runs containers as ordinary processes of the host.
	Process = Tier{Name: "process", Version: "1"}
	// Sim makes containers up.
	Sim = Tier{Name: "sim", Version: "1", Simulated: true}
)

// TierLabel is the label of a node that names its tier.
const TierLabel = "minikctl.dev/runtime"
