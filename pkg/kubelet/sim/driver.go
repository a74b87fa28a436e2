package sim

import (
	"context"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// Tier describes the runtime to the kubelet.
var Tier = kubelet.Tier{Name: "sim", Version: "1", Fields: fields, Simulated: true}

// Driver opens a Cluster for a daemon.
var Driver = kubelet.Driver{Tier: Tier, Open: func(_ context.Context, cfg kubelet.DriverConfig) (kubelet.Nodes, error) {
	return NewCluster(cfg.Clock, cfg.Client), nil
}}
