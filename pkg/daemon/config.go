package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/controllers"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/objects/feature"
)

//go:generate go run ./internal/configdoc

// Config holds the settings of a cluster. They come from a YAML file, MINIKCTL_* variables and flags; a variable overrides
// the file, and a flag overrides both. Only settings with a single value have a variable and a flag. Relative paths in the
// file start at the file's directory.
//
// The file is the one that --config names. Without --config a new cluster reads ~/.minikctl/config.yaml, and a cluster that
// has run before uses its own settings of the last start: its store, backups, controllers, nodes, kubelet, images, hostCommands, seed, clock, schedulerConfig and
// schedulerListen, tokenAuthFile and the audit log. An empty flag takes a setting back (--scheduler-config=). For the other settings it reads ~/.minikctl/config.yaml, too. Lists and maps are replaced
// as a whole, never merged: --nodes 1 replaces all nodes, and a file that sets images drops the images of the last start.
//
// Nodes that a cluster had at its last start and no longer has are removed when the cluster starts: each is cordoned, its
// pods are deleted with their grace period (a controller creates them again on other nodes; a pod without a controller is
// lost), and the Node is deleted. A node can't change its runtime; up refuses that.
type Config struct {
	// Name is the name of the cluster: each has its own data, socket, context and pod addresses. It is no setting of the file,
	// since every command needs it, from --name or MINIKCTL_NAME.
	Name string `json:"-"`
	// DataDir is the directory that holds the cluster's data. Default ~/.minikctl/NAME.
	DataDir string `json:"dataDir,omitempty"`
	// Listen is the HOST:PORT that the API server listens on; port 0 picks a free port. Default 127.0.0.1:0 at the first start,
	// later the port of the last start if it is free. With 0.0.0.0 it listens on all addresses, which its certificate then has, and kubeconfigs
	// name 127.0.0.1.
	Listen string `json:"listen,omitempty"`
	// Only lists the components to run: apiserver, controllers, scheduler, kubelet. Default: all.
	Only []string `json:"only,omitempty"`
	// Controllers selects the controllers that run, as --controllers of kube-controller-manager: "*" is all, NAME one, -NAME none,
	// for example [*, -cronjob-controller]. Default: all.
	Controllers []string `json:"controllers,omitempty"`
	// FeatureGates switches feature gates of Kubernetes on that are off by default: GenericWorkload (Workloads and PodGroups, and
	// spec.schedulingGroup of pods), GangScheduling (the scheduler plugin) and TopologyAwareWorkloadScheduling (topology constraints of
	// PodGroups, and the plugins that place these). Default: none.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// RuntimeConfig switches versions of the API on that are off by default, as --runtime-config of kube-apiserver:
	// {scheduling.k8s.io/v1alpha2: true}, which GenericWorkload needs. Default: none.
	RuntimeConfig map[string]bool `json:"runtimeConfig,omitempty"`
	// AllocateNodeCIDRs gives each node a podCIDR, from which its simulated pods have their addresses. Requires clusterCIDR, and simulated
	// nodes only: pods of other nodes have loopback addresses. Default false.
	AllocateNodeCIDRs bool `json:"allocateNodeCIDRs,omitempty"`
	// ClusterCIDR is the range of the podCIDRs, for example 10.244.0.0/16, or one of IPv4 and one of IPv6 with a comma. It has no effect
	// without allocateNodeCIDRs.
	ClusterCIDR string `json:"clusterCIDR,omitempty"`
	// NodeCIDRMaskSize is the prefix length of a podCIDR. Default 24, for IPv6 64.
	NodeCIDRMaskSize int `json:"nodeCIDRMaskSize,omitempty"`
	// NodeCIDRMaskSizeIPv4 is the prefix length of a podCIDR of IPv4 where clusterCIDR has two ranges. Default 24.
	NodeCIDRMaskSizeIPv4 int `json:"nodeCIDRMaskSizeIPv4,omitempty"`
	// NodeCIDRMaskSizeIPv6 is the prefix length of a podCIDR of IPv6 where clusterCIDR has two ranges. Default 64.
	NodeCIDRMaskSizeIPv6 int `json:"nodeCIDRMaskSizeIPv6,omitempty"`
	// NodeEvictionRate is the number of nodes a second that are evicted (their pods are deleted after their tolerations) in a zone
	// where nodes are not ready. Default 0.1.
	NodeEvictionRate *float64 `json:"nodeEvictionRate,omitempty"`
	// SecondaryNodeEvictionRate is the same in a large zone in which many nodes are not ready. Default 0.01.
	SecondaryNodeEvictionRate *float64 `json:"secondaryNodeEvictionRate,omitempty"`
	// LargeClusterSizeThreshold is the number of nodes beyond which a zone is large. In smaller ones no node is evicted while
	// many are not ready. Default 50.
	LargeClusterSizeThreshold *int `json:"largeClusterSizeThreshold,omitempty"`
	// UnhealthyZoneThreshold is the share of nodes of a zone (at least three nodes) that are many. Default 0.55.
	UnhealthyZoneThreshold *float64 `json:"unhealthyZoneThreshold,omitempty"`
	// NodeMonitorPeriod is the period at which nodes are checked. Default 5s.
	NodeMonitorPeriod metav1.Duration `json:"nodeMonitorPeriod,omitzero"`
	// NodeMonitorGracePeriod is the time without a heartbeat after which a node is unreachable. Default 50s.
	NodeMonitorGracePeriod metav1.Duration `json:"nodeMonitorGracePeriod,omitzero"`
	// NodeStartupGracePeriod is the same for a node that has not posted its status yet. Default 1m.
	NodeStartupGracePeriod metav1.Duration `json:"nodeStartupGracePeriod,omitzero"`
	// Kubeconfig is the kubeconfig with which the components reach the API server when this daemon runs none.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// WriteKubeconfig is a file to which the admin's kubeconfig is written once the API server is ready. Default: the context
	// is merged into ~/.kube/config (or the first file of $KUBECONFIG).
	WriteKubeconfig string `json:"writeKubeconfig,omitempty"`
	// TokenAuthFile is a CSV file of static tokens: token,user,uid,"group1,group2".
	TokenAuthFile string `json:"tokenAuthFile,omitempty"`
	// AuditPolicyFile is a file with an audit.k8s.io/v1 Policy, which selects the requests that the audit log records and the
	// level of detail. Requires auditLogPath. Default: no audit log.
	AuditPolicyFile string `json:"auditPolicyFile,omitempty"`
	// AuditLogPath is the file of the audit log, with one JSON object a line; - is standard output. Requires auditPolicyFile.
	AuditLogPath string `json:"auditLogPath,omitempty"`
	// AuditLogMaxSize is the size in megabytes at which the audit log is rotated. Default 100.
	AuditLogMaxSize int `json:"auditLogMaxSize,omitempty"`
	// AuditLogMaxBackup is the number of rotated audit log files to keep. Default 0: all.
	AuditLogMaxBackup int `json:"auditLogMaxBackup,omitempty"`
	// AuditLogMaxAge is the number of days to keep rotated audit log files. Default 0: no limit.
	AuditLogMaxAge int `json:"auditLogMaxAge,omitempty"`
	// Store is the store of the API server: badger (on disk) or memory (lost when the daemon ends). Default badger.
	Store string `json:"store,omitempty"`
	// Backup configures backups of the store at an interval. Default: none.
	Backup BackupConfig `json:"backup,omitzero"`
	// SchedulerConfig is a file with a KubeSchedulerConfiguration. The scheduler reloads it when it changes.
	SchedulerConfig string `json:"schedulerConfig,omitempty"`
	// SchedulerListen is the HOST:PORT that the scheduler serves its health, metrics, configuration and profiles on, as kube-scheduler on its port
	// 10259. Default: none.
	SchedulerListen string `json:"schedulerListen,omitempty"`
	// Nodes are the nodes that this daemon runs; [] is none. Default: one node of the runtime process.
	Nodes []NodeConfig `json:"nodes,omitzero"`
	// Kubelet are the settings of the kubelets.
	Kubelet KubeletConfig `json:"kubelet,omitzero"`
	// Images maps the name of an image to what runs instead: a built-in image (minikctl.dev/web), a directory, or a program.
	Images map[string]ImageConfig `json:"images,omitempty"`
	// HostCommands allows containers with an unknown image and a command: the command runs as a program of this machine.
	// Default true.
	HostCommands *bool `json:"hostCommands,omitempty"`
	// Seed makes UIDs and generated names repeatable: equal seeds give equal sequences, another one at each start. With a manual clock, the
	// whole cluster repeats an earlier run of the same commands (docs/clock.md). Default 0: random.
	Seed uint64 `json:"seed,omitempty"`
	// Clock is the cluster's clock: machine, fast:RATE (fast:60 runs a day in 24 minutes), manual (it stands still until minikctl clock
	// advance moves it) or manual:TIME (its first time, for example manual:2026-01-02T15:04:05Z). See clock.md. Default machine.
	Clock string `json:"clock,omitempty"`
	// MemoryLimit is the memory that the daemon may take, for example 2Gi. Near it the garbage collector works harder, and the
	// API server refuses requests with 429, except those of components and deletes. Default: $GOMEMLIMIT, or the limit of the
	// daemon's cgroup; without either there is no limit.
	MemoryLimit string `json:"memoryLimit,omitempty"`
	// LogLevel is the lowest level that is logged: debug, info, warn or error. Default info.
	LogLevel string `json:"logLevel,omitempty"`

	controllers []controller.Controller // that Controllers selects
	features    feature.Gates           // that FeatureGates switches on
	podCIDRs    controller.PodCIDRs     // that the controllers give to nodes

	nodeLifecycle controller.NodeLifecycle

	leaving []NodeConfig // nodes of an earlier start that Nodes no longer has, each with its full name
}

// BackupConfig configures backups of the store, in the directory "backups" of the cluster's data. "minikctl store restore" takes the
// newest. A backup holds the cluster's Secrets. The newest one is kept whatever the limits are.
type BackupConfig struct {
	// Every is the interval, for example 1h. Default 0: no backups.
	Every metav1.Duration `json:"every,omitzero"`
	// Keep is the number of backups that are kept. Default 7.
	Keep int `json:"keep,omitempty"`
	// MaxAge is the age after which a backup is removed, for example 72h. Default 0: no limit.
	MaxAge metav1.Duration `json:"maxAge,omitzero"`
	// MaxSize is the size of all backups together beyond which the oldest are removed, for example 500Mi. Default 1Gi.
	MaxSize resource.Quantity `json:"maxSize,omitzero"`
}

// complete fills in the defaults and validates the settings.
func (b *BackupConfig) complete() error {
	if b.Every.Duration == 0 {
		return nil
	}
	if b.Keep == 0 {
		b.Keep = 7
	}
	if b.MaxSize.IsZero() {
		b.MaxSize = resource.MustParse("1Gi")
	}
	switch {
	case b.Every.Duration < time.Second:
		return fmt.Errorf("backup.every: %s is less than a second", b.Every.Duration)
	case b.Keep < 0 || b.MaxAge.Duration < 0 || b.MaxSize.Sign() < 0:
		return errors.New("backup.keep, backup.maxAge and backup.maxSize may not be negative")
	}
	return nil
}

// Parts are the components that a daemon can run, in the order in which they start.
var Parts = []string{"apiserver", "controllers", "scheduler", "kubelet"}

// Runs reports whether the daemon runs the component.
func (c *Config) Runs(part string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, part) }

// resolve makes relative paths absolute: a daemon in the background may start in any directory, and a later start in another one.
func (c *Config) resolve(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	in := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(dir, path)
	}
	for _, p := range []*string{&c.DataDir, &c.Kubeconfig, &c.WriteKubeconfig, &c.TokenAuthFile, &c.SchedulerConfig, &c.AuditPolicyFile, &c.Kubelet.StaticPodPath} {
		*p = in(*p)
	}
	if c.AuditLogPath != "-" {
		c.AuditLogPath = in(c.AuditLogPath)
	}
	c.resolveImages(in)
	return nil
}

const (
	defaultListen   = "127.0.0.1:0"
	defaultLogLevel = "info"
)

// complete fills in the defaults and validates the config.
func (c *Config) complete() error {
	set := func(to *string, value string) {
		if *to == "" {
			*to = value
		}
	}
	set(&c.DataDir, filepath.Join(Home(), c.Name))
	set(&c.Listen, defaultListen)
	set(&c.Store, "badger")
	set(&c.LogLevel, defaultLogLevel)
	if abs, err := filepath.Abs(c.DataDir); err == nil {
		c.DataDir = abs
	}
	if err := checkListen(c.Listen); err != nil {
		return err
	}
	if _, err := stores.Find(c.Store); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := new(slog.Level).UnmarshalText([]byte(c.LogLevel)); err != nil {
		return fmt.Errorf("logLevel: %q is not one of [debug info warn error]", c.LogLevel)
	}
	if _, err := parseMemory(c.MemoryLimit); err != nil {
		return err
	}
	if _, err := parseClock(c.Clock); err != nil {
		return err
	}
	var err error
	if c.controllers, err = controllers.Select(c.Controllers); err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	if err := c.completeFeatures(); err != nil {
		return err
	}
	for _, part := range c.Only {
		if !slices.Contains(Parts, part) {
			return fmt.Errorf("--only: %q is not one of [%s]", part, strings.Join(Parts, " "))
		}
	}
	if !c.Runs("apiserver") && c.Kubeconfig == "" {
		return errors.New("--only without apiserver needs --kubeconfig, to reach the API server")
	}
	if err := errors.Join(c.checkAudit(), c.Backup.complete(), c.Kubelet.complete()); err != nil {
		return err
	}
	if c.Nodes == nil {
		c.Nodes = []NodeConfig{{}}
	}
	if err := c.completeNodes(); err != nil {
		return err
	}
	if err := c.completeNodeLifecycle(); err != nil {
		return err
	}
	return c.completePodCIDRs()
}

// workloadVersion is the version of Workloads and PodGroups.
const workloadVersion = "scheduling.k8s.io/v1alpha2"

// completeFeatures parses the feature gates. A gate without the version of its resources is refused, and so is a version without its gate:
// Kubernetes starts with either, and serves none of the resources.
func (c *Config) completeFeatures() error {
	var err error
	if c.features, err = feature.Parse(c.FeatureGates); err != nil {
		return fmt.Errorf("featureGates: %w", err)
	}
	for version := range c.RuntimeConfig {
		if version != workloadVersion {
			return fmt.Errorf("runtimeConfig: %q is not one of [%s]", version, workloadVersion)
		}
	}
	switch served := c.RuntimeConfig[workloadVersion]; {
	case served && !c.features.GenericWorkload:
		return fmt.Errorf("runtimeConfig: %s requires the feature gate GenericWorkload", workloadVersion)
	case !served && c.features.GenericWorkload:
		return fmt.Errorf("featureGates: GenericWorkload requires runtimeConfig %s=true", workloadVersion)
	}
	return nil
}

// checkAudit refuses a policy without a log and a log without a policy: neither makes an audit log.
func (c *Config) checkAudit() error {
	switch {
	case c.AuditPolicyFile != "" && c.AuditLogPath == "":
		return errors.New("--audit-policy-file requires --audit-log-path, the file of the audit log")
	case c.AuditPolicyFile == "" && c.AuditLogPath != "":
		return errors.New("--audit-log-path requires --audit-policy-file, which selects the requests to log")
	case min(c.AuditLogMaxSize, c.AuditLogMaxBackup, c.AuditLogMaxAge) < 0:
		return errors.New("auditLogMaxSize, auditLogMaxBackup and auditLogMaxAge may not be negative")
	}
	for _, p := range []*string{&c.AuditPolicyFile, &c.AuditLogPath} { // a later start may have another working directory
		if *p == "" || *p == "-" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	return nil
}
