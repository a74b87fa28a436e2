package process

import (
	"context"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet"
)

// Tier describes the runtime to the kubelet.
var Tier = kubelet.Tier{Name: "process", Version: "1", Fields: fields}

// Driver opens a Host for a daemon.
var Driver = kubelet.Driver{Tier: Tier, Open: func(ctx context.Context, cfg kubelet.DriverConfig) (kubelet.Nodes, error) {
	r, err := cfg.Addresses()
	if err != nil {
		return nil, err
	}
	h, err := Open(ctx, Config{
		Root: cfg.Root, Range: r, Clock: clock.Machine(cfg.Clock), BestEffort: cfg.BestEffort, BestEffortMounts: cfg.BestEffortMounts,
		PodUsers: cfg.PodUsers, PodPIDs: cfg.PodPIDs,
	})
	if err != nil {
		return nil, err
	}
	return nodes{h}, nil
}}

type nodes struct{ *Host }

// Runtime implements kubelet.Nodes.
func (n nodes) Runtime(node string) kubelet.Runtime { return n.Host.Runtime(node) }
