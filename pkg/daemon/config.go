package daemon

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/minikctl/minikctl/pkg/controllers"
	"github.com/minikctl/minikctl/pkg/controllers/controller"
	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/plug"
)

//go:generate go run ./internal/configdoc

// Config holds the settings of a cluster. They come from a YAML file, MINIKCTL_* variables and flags; a variable overrides
// the file, and a flag overrides both. Only settings with a single value have a variable and a flag. Relative paths in the
// file start at the file's folder.
//
// The file is the one that --config names. Without --config a new cluster reads ~/.minikctl/config.yaml, and a cluster that
// has run before uses its own settings of the last start: its store, backups, controllers, nodes, kubelet, images, hostCommands, seed, clock and schedulerConfig,
// tokenAuthFile and the audit log. For the other settings it reads ~/.minikctl/config.yaml, too. Lists and maps are replaced
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
	// later the port of the last start if it is free.
	Listen string `json:"listen,omitempty"`
	// Only lists the components to run: apiserver, controllers, scheduler, kubelet. Default: all.
	Only []string `json:"only,omitempty"`
	// Controllers selects the controllers that run, as --controllers of kube-controller-manager: "*" is all, NAME one, -NAME none,
	// for example [*, -cronjob-controller]. Default: all.
	Controllers []string `json:"controllers,omitempty"`
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
	// Nodes are the nodes that this daemon runs. Default: one node of the runtime process.
	Nodes []NodeConfig `json:"nodes,omitempty"`
	// Kubelet are the settings of the kubelets.
	Kubelet KubeletConfig `json:"kubelet,omitzero"`
	// Images maps the name of an image to what runs instead: a built-in image (minikctl.dev/web), a folder, or a command.
	Images map[string]ImageConfig `json:"images,omitempty"`
	// HostCommands allows containers with an unknown image and a command: the command runs as a program of this machine.
	// Default true.
	HostCommands *bool `json:"hostCommands,omitempty"`
	// Seed makes UIDs and generated names repeatable: equal seeds give equal sequences, another one at each start. Default 0: random.
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
	podCIDRs    controller.PodCIDRs     // that the controllers give to nodes

	leaving []NodeConfig // nodes of an earlier start that Nodes no longer has, each with its full name
}

// BackupConfig configures backups of the store, in the folder "backups" of the cluster's data. "minikctl store restore" takes the
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

// NodeConfig describes one node, or several that differ in name only.
type NodeConfig struct {
	// Count is the number of nodes. Default 1.
	Count int `json:"count,omitempty"`
	// Name is the name of the node. Several nodes are called NAME-1, NAME-2 and so on. Default "node", or "sim" for the runtime
	// sim, both with a number even for a single node.
	Name string `json:"name,omitempty"`
	// Runtime selects the runtime of the pods on these nodes.
	Runtime RuntimeConfig `json:"runtime,omitzero"`
	// Capacity is the node's capacity, for example cpu: 4. Resources that it leaves out have the capacity of this machine.
	Capacity map[corev1.ResourceName]resource.Quantity `json:"capacity,omitempty"`
	// Labels are labels of the Node in addition to the well-known ones.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are the taints with which the kubelet registers the Node.
	Taints []corev1.Taint `json:"taints,omitempty"`
}

// RuntimeConfig selects a runtime.
type RuntimeConfig struct {
	// Name is process (containers are processes of this machine) or sim (pods are simulated, nothing runs). Default process.
	Name string `json:"name,omitempty"`
}

// ImageConfig is what runs in place of an image. In the file it is a string (a built-in image or a folder) or a list of
// strings (a command with its arguments).
type ImageConfig struct {
	Ref     string
	Command []string
}

// UnmarshalJSON reads a string or a list of strings.
func (i *ImageConfig) UnmarshalJSON(b []byte) error {
	err := json.Unmarshal(b, &i.Ref)
	if len(b) > 0 && b[0] == '[' {
		err = json.Unmarshal(b, &i.Command)
	}
	if err != nil || i.Ref == "" && len(i.Command) == 0 {
		return fmt.Errorf("image %s is neither a string nor a list of strings", b)
	}
	return nil
}

// MarshalJSON writes a command as a list and everything else as a string.
func (i ImageConfig) MarshalJSON() ([]byte, error) {
	if i.Command != nil {
		return json.Marshal(i.Command)
	}
	return json.Marshal(i.Ref)
}

// Parts are the components that a daemon can run, in the order in which they start.
var Parts = []string{"apiserver", "controllers", "scheduler", "kubelet"}

// Runs reports whether the daemon runs the component.
func (c *Config) Runs(part string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, part) }

// AddFlags adds the flags of up to flags, the most common ones first.
func AddFlags(flags *pflag.FlagSet) {
	flags.Int("nodes", 0, "number of nodes of the runtime process (default 1); nodes that the cluster no longer has are drained and deleted")
	flags.Int("sim-nodes", 0, "number of simulated nodes")
	flags.String("config", "", "config file (default: the cluster's own settings, or ~/.minikctl/config.yaml for a new cluster)")
	flags.String("data-dir", "", "directory that holds the cluster's data (default ~/.minikctl/NAME)")
	flags.String("listen", "", "HOST:PORT that the API server listens on; port 0 picks a free port (default 127.0.0.1:0)")
	flags.StringSlice("only", nil, "run only these components: "+strings.Join(Parts, ", "))
	flags.StringSlice("controllers", nil, "controllers to run: '*' is all, NAME one, -NAME none, e.g. --controllers='*,-cronjob-controller' (default all)")
	flags.Bool("allocate-node-cidrs", false, "give simulated nodes podCIDRs from --cluster-cidr")
	flags.String("cluster-cidr", "", "range of the nodes' podCIDRs, or one of IPv4 and one of IPv6 with a comma")
	flags.Int("node-cidr-mask-size", 0, "prefix length of podCIDRs (default 24 for IPv4, 64 for IPv6)")
	flags.Int("node-cidr-mask-size-ipv4", 0, "prefix length of podCIDRs of IPv4 beside those of IPv6 (default 24)")
	flags.Int("node-cidr-mask-size-ipv6", 0, "prefix length of podCIDRs of IPv6 beside those of IPv4 (default 64)")
	flags.String("scheduler-config", "", "file with a KubeSchedulerConfiguration, reloaded when it changes")
	flags.String("store", "", "store of the API server: badger or memory (default badger)")
	flags.String("write-kubeconfig", "", "write the admin's kubeconfig to this file instead of merging it into ~/.kube/config")
	flags.String("pod-manifest-path", "", "file or folder with static pods, which the process nodes run on their own")
	flags.String("token-auth-file", "", `CSV file of static tokens: token,user,uid,"group1,group2"`)
	flags.String("audit-policy-file", "", "file with the Policy of the audit log (default: no audit log)")
	flags.String("audit-log-path", "", "file of the audit log; - is standard output")
	flags.Int("audit-log-maxsize", 0, "size in megabytes at which the audit log is rotated (default 100)")
	flags.Int("audit-log-maxbackup", 0, "number of rotated audit log files to keep (default all)")
	flags.Int("audit-log-maxage", 0, "number of days to keep rotated audit log files (default no limit)")
	flags.String("memory-limit", "", "memory that the daemon may take, for example 2Gi (default: the limit of the daemon's cgroup)")
	flags.Uint64("seed", 0, "seed that makes UIDs and generated names repeatable")
	flags.String("clock", "", "the cluster's clock: machine, fast:RATE, manual or manual:TIME (default machine)")
	flags.String("log-level", "", "lowest level that is logged: debug, info, warn or error (default info)")
}

// Load returns the config of the cluster called name, with defaults filled in: the file and the settings of the last start
// (see Config), then MINIKCTL_* variables, then flags.
func Load(name string, flags *pflag.FlagSet) (*Config, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	v := viper.New()
	v.SetEnvPrefix("MINIKCTL")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	if err := v.BindPFlags(flags); err != nil {
		return nil, err
	}
	cfg := &Config{}
	if err := cfg.readFile(v.GetString("config")); err != nil {
		return nil, err
	}
	paths := PathsOf(name)
	if dir := cmp.Or(v.GetString("data-dir"), cfg.DataDir); dir != "" {
		paths = PathsIn(name, dir)
	}
	last, err := readSettings(paths)
	if err != nil {
		return nil, err
	}
	if last != nil && v.GetString("config") == "" {
		cfg.replaceClusterSettings(last) // ~/.minikctl/config.yaml is for new clusters
	}
	cfg.Name = name
	for key, to := range map[string]*string{
		"data-dir": &cfg.DataDir, "listen": &cfg.Listen, "write-kubeconfig": &cfg.WriteKubeconfig, "token-auth-file": &cfg.TokenAuthFile,
		"pod-manifest-path": &cfg.Kubelet.StaticPodPath,
		"audit-policy-file": &cfg.AuditPolicyFile, "audit-log-path": &cfg.AuditLogPath,
		"store": &cfg.Store, "scheduler-config": &cfg.SchedulerConfig, "log-level": &cfg.LogLevel, "clock": &cfg.Clock, "memory-limit": &cfg.MemoryLimit, "cluster-cidr": &cfg.ClusterCIDR, "kubeconfig": &cfg.Kubeconfig,
	} {
		if s := v.GetString(key); s != "" {
			*to = s
		}
	}
	if only := commaList(v.GetStringSlice("only")); len(only) > 0 {
		cfg.Only = only
	}
	if v.IsSet("allocate-node-cidrs") {
		cfg.AllocateNodeCIDRs = v.GetBool("allocate-node-cidrs")
	}
	if list := commaList(v.GetStringSlice("controllers")); len(list) > 0 {
		cfg.Controllers = list
	}
	seed, err := number(v, flags, "seed", 64)
	if err != nil {
		return nil, err
	}
	cfg.Seed = cmp.Or(seed, cfg.Seed)
	for key, to := range map[string]*int{
		"audit-log-maxsize": &cfg.AuditLogMaxSize, "audit-log-maxbackup": &cfg.AuditLogMaxBackup, "audit-log-maxage": &cfg.AuditLogMaxAge,
		"node-cidr-mask-size": &cfg.NodeCIDRMaskSize, "node-cidr-mask-size-ipv4": &cfg.NodeCIDRMaskSizeIPv4, "node-cidr-mask-size-ipv6": &cfg.NodeCIDRMaskSizeIPv6,
	} {
		n, err := number(v, flags, key, 31)
		if err != nil {
			return nil, err
		}
		*to = cmp.Or(int(n), *to)
	}
	process, err := number(v, flags, "nodes", 31)
	if err != nil {
		return nil, err
	}
	sim, err := number(v, flags, "sim-nodes", 31)
	if err != nil {
		return nil, err
	}
	cfg.addNodes(int(process), int(sim))
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return cfg, cfg.setRemovedNodes(last)
}

// commaList splits the elements at commas and spaces, which viper does not do for variables.
func commaList(list []string) []string {
	return strings.FieldsFunc(strings.Join(list, ","), func(r rune) bool { return r == ',' || r == ' ' })
}

// number reads a number from a flag or a variable. viper would read text that is no number as 0.
func number(v *viper.Viper, flags *pflag.FlagSet, key string, bits int) (uint64, error) {
	s := v.GetString(key)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number from 0", sourceOf(flags, key), s)
	}
	return n, nil
}

// sourceOf returns the flag or the variable that set key.
func sourceOf(flags *pflag.FlagSet, key string) string {
	if flags.Changed(key) {
		return "--" + key
	}
	return "MINIKCTL_" + strings.ReplaceAll(strings.ToUpper(key), "-", "_")
}

func (c *Config) readFile(path string) error {
	optional := path == ""
	if optional {
		path = filepath.Join(Home(), "config.yaml")
	}
	b, err := os.ReadFile(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read config: %w", err)
	}
	if err := plug.Decode(b, c); err != nil {
		return fmt.Errorf("read config %s: %w", path, err)
	}
	return c.resolve(filepath.Dir(path))
}

// resolve makes the file's relative paths absolute: a daemon in the background may start in any folder.
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
	for name, i := range c.Images {
		if !strings.HasPrefix(i.Ref, images.Prefix) {
			i.Ref = in(i.Ref)
			c.Images[name] = i
		}
	}
	return nil
}

// addNodes replaces all nodes when a flag or variable gives a count.
func (c *Config) addNodes(process, sim int) {
	if process == 0 && sim == 0 {
		return
	}
	c.Nodes = nil
	if process > 0 {
		c.Nodes = append(c.Nodes, NodeConfig{Count: process, Runtime: RuntimeConfig{Name: "process"}})
	}
	if sim > 0 {
		c.Nodes = append(c.Nodes, NodeConfig{Count: sim, Runtime: RuntimeConfig{Name: "sim"}})
	}
}

// complete fills in the defaults and validates the config.
func (c *Config) complete() error {
	set := func(to *string, value string) {
		if *to == "" {
			*to = value
		}
	}
	set(&c.DataDir, filepath.Join(Home(), c.Name))
	set(&c.Listen, "127.0.0.1:0")
	set(&c.Store, "badger")
	set(&c.LogLevel, "info")
	if abs, err := filepath.Abs(c.DataDir); err == nil {
		c.DataDir = abs
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
	if len(c.Nodes) == 0 {
		c.Nodes = []NodeConfig{{}}
	}
	if err := c.completeNodes(); err != nil {
		return err
	}
	return c.completePodCIDRs()
}

// completePodCIDRs checks the ranges of podCIDRs.
func (c *Config) completePodCIDRs() error {
	if !c.AllocateNodeCIDRs {
		return nil
	}
	var err error
	c.podCIDRs, err = controller.ParsePodCIDRs(controller.PodCIDRFlags{
		ClusterCIDR: c.ClusterCIDR, MaskSize: c.NodeCIDRMaskSize, MaskSize4: c.NodeCIDRMaskSizeIPv4, MaskSize6: c.NodeCIDRMaskSizeIPv6,
	})
	if err != nil {
		return fmt.Errorf("allocateNodeCIDRs: %w", err)
	}
	c.podCIDRs.Services = netip.MustParsePrefix("10.96.0.0/16") // of clusters with simulated nodes only
	hasProcesses := func(n NodeConfig) bool { return n.Runtime.Name != "sim" }
	if c.Runs("kubelet") && slices.ContainsFunc(c.Nodes, hasProcesses) {
		return errors.New("allocateNodeCIDRs: only simulated nodes can have podCIDRs (--sim-nodes N): pods of other nodes have loopback addresses")
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

func (c *Config) completeNodes() error {
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Count == 0 {
			n.Count = 1
		}
		if n.Runtime.Name == "" {
			n.Runtime.Name = "process"
		}
		if n.Count < 0 {
			return fmt.Errorf("nodes[%d].count: %d is negative", i, n.Count)
		}
		if _, err := drivers.Find(n.Runtime.Name); err != nil {
			return fmt.Errorf("nodes[%d].runtime: %w", i, err)
		}
		if err := checkTaints(n.Taints); err != nil {
			return fmt.Errorf("nodes[%d].%w", i, err)
		}
		if n.Name == "" {
			n.Name = map[string]string{"sim": "sim"}[n.Runtime.Name]
		}
		if n.Name == "" {
			n.Name = "node"
		}
	}
	return c.checkNodeNames()
}

// taintEffects are the effects that the API accepts.
var taintEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

// checkTaints refuses taints that the API server would refuse: the kubelet could not register the node.
func checkTaints(taints []corev1.Taint) error {
	for i, t := range taints {
		if wrong := validation.IsQualifiedName(t.Key); len(wrong) > 0 {
			return fmt.Errorf("taints[%d].key: %q: %s", i, t.Key, wrong[0])
		}
		if wrong := validation.IsValidLabelValue(t.Value); len(wrong) > 0 {
			return fmt.Errorf("taints[%d].value: %q: %s", i, t.Value, wrong[0])
		}
		if !slices.Contains(taintEffects, t.Effect) {
			return fmt.Errorf("taints[%d].effect: %q is not one of %v", i, t.Effect, taintEffects)
		}
	}
	return nil
}

// RunsProcesses reports whether the daemon runs pods as processes of this machine.
func (c *Config) RunsProcesses() bool {
	return c.Runs("kubelet") && slices.ContainsFunc(c.Nodes, func(n NodeConfig) bool { return n.Runtime.Name == "process" })
}

// checkNodeNames refuses invalid and duplicate node names.
func (c *Config) checkNodeNames() error {
	taken := map[string]int{}
	for i, n := range c.Nodes {
		if wrong := validation.IsDNS1123Subdomain(n.Name); len(wrong) > 0 {
			return fmt.Errorf("nodes[%d].name: %q: %s", i, n.Name, wrong[0])
		}
		for _, name := range n.names() {
			if other, ok := taken[name]; ok {
				return fmt.Errorf("nodes[%d].name: %q is a node of nodes[%d] already", i, name, other)
			}
			taken[name] = i
		}
	}
	return nil
}
