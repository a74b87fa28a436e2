package kubelet

import (
	"context"

	"github.com/minikctl/minikctl/pkg/client"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/network/addr"
)

// Tier describes a kind of runtime to the kubelet and to users.
type Tier struct {
	Name    string // "process", "sim": the value of the node's label minikctl.dev/runtime
	Version string // part of the node's containerRuntimeVersion
	Fields  Fields // the support for a pod's fields, where it depends on the runtime

	// Simulated containers run no program: the kubelet resolves, writes and probes nothing for them.
	Simulated bool
}

// TierLabel is the label of a node that names its tier.
const TierLabel = "minikctl.dev/runtime"

// Driver opens the runtimes of one tier for the nodes of a daemon.
type Driver struct {
	Tier Tier
	// Open opens what the runtimes of all nodes share. A daemon calls it once, and only if a node has this tier.
	Open func(ctx context.Context, cfg DriverConfig) (Nodes, error)
}

// DriverConfig is what a daemon offers to its drivers.
type DriverConfig struct {
	Root      string                     // a directory for the driver's files; it may not exist yet
	Addresses func() (addr.Range, error) // claims the daemon's range of pod addresses
	Client    client.Client              // of drivers that simulate pods: may read and change all objects; nil for others
	Clock     clock.Clock
	Source    *clock.Source
	// BestEffort: containers start where the machine can't give them the user or the groups of their security context.
	BestEffort bool
	// BestEffortMounts: containers start where the machine can't hide its files behind their mounts.
	BestEffortMounts bool
	// PodUsers: pods have users of their own, as HostConfig says.
	PodUsers bool
	// PodPIDs limits the processes and threads of each pod; 0: they have no limit.
	PodPIDs int64
}

// Nodes gives each node its runtime.
type Nodes interface {
	// Runtime returns the runtime of a node.
	Runtime(node string) Runtime
	// Close closes the runtimes of all nodes. Their pods run on.
	Close() error
}
