package controller

import (
	"errors"
	"time"
)

// NodeLifecycle are kube-controller-manager's flags about the health of nodes.
type NodeLifecycle struct {
	EvictionRate              float64 // nodes a second that are evicted in a healthy zone
	SecondaryEvictionRate     float64 // the same in a large zone that is partially disrupted
	LargeClusterSizeThreshold int     // the number of nodes beyond which a zone is large; no node of a smaller one is evicted while it is partially disrupted
	UnhealthyZoneThreshold    float64 // the share of nodes that are not ready from which a zone is partially disrupted

	MonitorPeriod      time.Duration // between two checks of a node
	MonitorGracePeriod time.Duration // without a heartbeat, after which a node is unreachable
	StartupGracePeriod time.Duration // the same for a node without a status
}

// DefaultNodeLifecycle returns kube-controller-manager's defaults.
func DefaultNodeLifecycle() NodeLifecycle {
	return NodeLifecycle{
		EvictionRate: 0.1, SecondaryEvictionRate: 0.01, LargeClusterSizeThreshold: 50, UnhealthyZoneThreshold: 0.55,
		MonitorPeriod: 5 * time.Second, MonitorGracePeriod: 50 * time.Second, StartupGracePeriod: time.Minute,
	}
}

// Check refuses values with which no node could be monitored.
func (n NodeLifecycle) Check() error {
	switch {
	case min(n.EvictionRate, n.SecondaryEvictionRate, n.UnhealthyZoneThreshold) < 0 || n.LargeClusterSizeThreshold < 0:
		return errors.New("nodeEvictionRate, secondaryNodeEvictionRate, largeClusterSizeThreshold and unhealthyZoneThreshold may not be negative")
	case n.MonitorPeriod <= 0 || n.MonitorGracePeriod <= 0 || n.StartupGracePeriod <= 0:
		return errors.New("nodeMonitorPeriod, nodeMonitorGracePeriod and nodeStartupGracePeriod must be positive")
	}
	return nil
}
