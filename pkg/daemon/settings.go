package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/plug"
)

// settings are the settings of a cluster's last start.
type settings struct {
	Config
	// Leaving are nodes that the config no longer has and that are not deleted yet.
	Leaving []NodeConfig `json:"leaving,omitempty"`
}

// settingsPath returns the path of the settings file. It keeps the nodes, to which the cluster's pods are bound, over a restart.
func settingsPath(p Paths) string { return filepath.Join(p.Data, "settings.yaml") }

// clusterSettings returns the settings that belong to the cluster rather than to one start of it.
func (c *Config) clusterSettings() Config {
	return Config{
		Store: c.Store, Backup: c.Backup, Controllers: c.Controllers, FeatureGates: c.FeatureGates, RuntimeConfig: c.RuntimeConfig,
		AllocateNodeCIDRs: c.AllocateNodeCIDRs, ClusterCIDR: c.ClusterCIDR,
		NodeCIDRMaskSize: c.NodeCIDRMaskSize, NodeCIDRMaskSizeIPv4: c.NodeCIDRMaskSizeIPv4, NodeCIDRMaskSizeIPv6: c.NodeCIDRMaskSizeIPv6,
		NodeEvictionRate: c.NodeEvictionRate, SecondaryNodeEvictionRate: c.SecondaryNodeEvictionRate,
		LargeClusterSizeThreshold: c.LargeClusterSizeThreshold, UnhealthyZoneThreshold: c.UnhealthyZoneThreshold,
		NodeMonitorPeriod: c.NodeMonitorPeriod, NodeMonitorGracePeriod: c.NodeMonitorGracePeriod, NodeStartupGracePeriod: c.NodeStartupGracePeriod,
		Nodes: c.Nodes, Kubelet: c.Kubelet, Images: c.Images, HostCommands: c.HostCommands, Seed: c.Seed, Clock: c.Clock,
		SchedulerConfig: c.SchedulerConfig, SchedulerListen: c.SchedulerListen, TokenAuthFile: c.TokenAuthFile,
		AuditPolicyFile: c.AuditPolicyFile, AuditLogPath: c.AuditLogPath,
		AuditLogMaxSize: c.AuditLogMaxSize, AuditLogMaxBackup: c.AuditLogMaxBackup, AuditLogMaxAge: c.AuditLogMaxAge,
		MemoryLimit: c.MemoryLimit,
	}
}

// replaceClusterSettings replaces the settings that belong to the cluster by those of its last start, each as a whole.
func (c *Config) replaceClusterSettings(last *settings) {
	own := last.clusterSettings()
	own.Name, own.DataDir, own.Listen, own.Only = c.Name, c.DataDir, c.Listen, c.Only
	own.Kubeconfig, own.WriteKubeconfig, own.LogLevel = c.Kubeconfig, c.WriteKubeconfig, c.LogLevel
	*c = own
}

// writeSettings keeps the settings of this start for the next one.
func (c *Config) writeSettings(p Paths) error {
	b, err := yaml.Marshal(settings{Config: c.clusterSettings(), Leaving: c.leaving})
	if err != nil {
		return fmt.Errorf("keep the settings: %w", err)
	}
	tmp := settingsPath(p) + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("keep the settings: %w", err)
	}
	return os.Rename(tmp, settingsPath(p))
}

// readSettings returns the settings of the last start, nil if there was none.
func readSettings(p Paths) (*settings, error) {
	b, err := os.ReadFile(settingsPath(p))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no settings are not an error
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings of the last start: %w", err)
	}
	s := &settings{}
	if err := plug.Decode(b, s); err != nil {
		return nil, fmt.Errorf("read the settings of the last start, %s: %w", settingsPath(p), err)
	}
	return s, nil
}

// forgetNode removes a node that has been deleted from the settings.
func (d *Daemon) forgetNode(node string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cfg.leaving = slices.DeleteFunc(d.cfg.leaving, func(n NodeConfig) bool { return n.Name == node })
	return d.cfg.writeSettings(d.paths)
}
