package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/minikctl/minikctl/pkg/plug"
)

// settingsPath is the file that holds what a cluster is made of, so that it comes back as it was: pods would otherwise
// stay bound to nodes that nobody brings up any more.
func settingsPath(p Paths) string { return filepath.Join(p.Data, "settings.yaml") }

// lasting returns the settings that belong to the cluster rather than to one start of it.
func (c *Config) lasting() *Config {
	return &Config{
		Store: c.Store, Nodes: c.Nodes, Images: c.Images, HostCommands: c.HostCommands, Seed: c.Seed,
		SchedulerConfig: c.SchedulerConfig, TokenAuthFile: c.TokenAuthFile,
		AuditPolicyFile: c.AuditPolicyFile, AuditLogPath: c.AuditLogPath,
		AuditLogMaxSize: c.AuditLogMaxSize, AuditLogMaxBackup: c.AuditLogMaxBackup, AuditLogMaxAge: c.AuditLogMaxAge,
	}
}

// remember keeps the lasting settings for the next start.
func (c *Config) remember(p Paths) error {
	b, err := yaml.Marshal(c.lasting())
	if err != nil {
		return fmt.Errorf("keep the settings: %w", err)
	}
	tmp := settingsPath(p) + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("keep the settings: %w", err)
	}
	return os.Rename(tmp, settingsPath(p))
}

// recall begins with the settings of the last start, if there was one.
func (c *Config) recall(p Paths) error {
	b, err := os.ReadFile(settingsPath(p))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the settings of the last start: %w", err)
	}
	if err := plug.Decode(b, c); err != nil {
		return fmt.Errorf("read the settings of the last start, %s: %w", settingsPath(p), err)
	}
	return nil
}
