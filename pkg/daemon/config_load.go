package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/minikctl/minikctl/pkg/plug"
)

// AddFlags adds the flags of up to flags, the most common ones first.
func AddFlags(flags *pflag.FlagSet) {
	flags.Int("nodes", 0, "number of nodes of the runtime process (default 1, or 0 beside --sim-nodes); nodes that the cluster no longer has are drained and deleted")
	flags.Int("sim-nodes", 0, "number of simulated nodes")
	flags.String("config", "", "config file (default: the cluster's own settings, or ~/.minikctl/config.yaml for a new cluster)")
	flags.String("data-dir", "", "directory that holds the cluster's data (default ~/.minikctl/NAME)")
	flags.String("listen", "", "HOST:PORT that the API server listens on; port 0 picks a free port (default 127.0.0.1:0)")
	flags.StringSlice("only", nil, "run only these components: "+strings.Join(Parts, ", "))
	flags.StringSlice("controllers", nil, "controllers to run: '*' is all, NAME one, -NAME none, e.g. --controllers='*,-cronjob-controller' (default all)")
	flags.StringSlice("feature-gates", nil, "feature gates of Kubernetes: NAME=true, for example GenericWorkload=true,GangScheduling=true")
	flags.StringSlice("runtime-config", nil, "versions of the API that are off by default: scheduling.k8s.io/v1alpha2=true")
	flags.Bool("allocate-node-cidrs", false, "give simulated nodes podCIDRs from --cluster-cidr")
	flags.String("cluster-cidr", "", "range of the nodes' podCIDRs, or one of IPv4 and one of IPv6 with a comma")
	flags.Int("node-cidr-mask-size", 0, "prefix length of podCIDRs (default 24 for IPv4, 64 for IPv6)")
	flags.Int("node-cidr-mask-size-ipv4", 0, "prefix length of podCIDRs of IPv4 beside those of IPv6 (default 24)")
	flags.Int("node-cidr-mask-size-ipv6", 0, "prefix length of podCIDRs of IPv6 beside those of IPv4 (default 64)")
	flags.Float64("node-eviction-rate", 0, "nodes a second that are evicted in a zone where nodes are not ready (default 0.1)")
	flags.Float64("secondary-node-eviction-rate", 0, "the same in a large zone in which many nodes are not ready (default 0.01)")
	flags.Int("large-cluster-size-threshold", 0, "number of nodes beyond which a zone is large (default 50)")
	flags.Float64("unhealthy-zone-threshold", 0, "share of nodes of a zone that are many (default 0.55)")
	flags.Duration("node-monitor-period", 0, "period at which nodes are checked (default 5s)")
	flags.Duration("node-monitor-grace-period", 0, "time without a heartbeat after which a node is unreachable (default 50s)")
	flags.Duration("node-startup-grace-period", 0, "the same for a node that has not posted its status yet (default 1m)")
	flags.String("scheduler-config", "", "file with a KubeSchedulerConfiguration, reloaded when it changes")
	flags.String("scheduler-listen", "", "HOST:PORT that the scheduler serves its health, metrics, configuration and profiles on (default none)")
	flags.String("store", "", "store of the API server: badger or memory (default badger)")
	flags.String("write-kubeconfig", "", "write the admin's kubeconfig to this file instead of merging it into ~/.kube/config")
	flags.String("pod-manifest-path", "", "file or directory with static pods, which the process nodes run on their own")
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
	cfg.loadTexts(v, flags)
	if err := cfg.resolve("."); err != nil { // those of flags and variables: files' own paths are absolute by now
		return nil, err
	}
	if only := commaList(v.GetStringSlice("only")); len(only) > 0 {
		cfg.Only = only
	}
	if list := commaList(v.GetStringSlice("controllers")); len(list) > 0 {
		cfg.Controllers = list
	}
	if err := cfg.loadSwitches(v, flags); err != nil {
		return nil, err
	}
	if err := cfg.loadNumbers(v, flags); err != nil {
		return nil, err
	}
	if err := cfg.loadNodeLifecycle(v, flags); err != nil {
		return nil, err
	}
	if err := cfg.loadNodes(v, flags); err != nil {
		return nil, err
	}
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return cfg, cfg.setRemovedNodes(last)
}

// loadSwitches reads the flags and variables that are true or false, or lists of NAME=true and NAME=false.
func (c *Config) loadSwitches(v *viper.Viper, flags *pflag.FlagSet) (err error) {
	if key := "allocate-node-cidrs"; v.IsSet(key) {
		if c.AllocateNodeCIDRs, err = strconv.ParseBool(v.GetString(key)); err != nil {
			return fmt.Errorf("%s: %q is neither true nor false", sourceOf(flags, key), v.GetString(key))
		}
	}
	for key, to := range map[string]*map[string]bool{"feature-gates": &c.FeatureGates, "runtime-config": &c.RuntimeConfig} {
		if list := commaList(v.GetStringSlice(key)); len(list) > 0 {
			if *to, err = switches(list); err != nil {
				return fmt.Errorf("%s: %w", sourceOf(flags, key), err)
			}
		}
	}
	return nil
}

// loadNumbers reads the flags and variables with numbers. 0 is no setting.
func (c *Config) loadNumbers(v *viper.Viper, flags *pflag.FlagSet) error {
	seed, err := number(v, flags, "seed", 64)
	if err != nil {
		return err
	}
	c.Seed = cmp.Or(seed, c.Seed)
	for key, to := range map[string]*int{
		"audit-log-maxsize": &c.AuditLogMaxSize, "audit-log-maxbackup": &c.AuditLogMaxBackup, "audit-log-maxage": &c.AuditLogMaxAge,
		"node-cidr-mask-size": &c.NodeCIDRMaskSize, "node-cidr-mask-size-ipv4": &c.NodeCIDRMaskSizeIPv4, "node-cidr-mask-size-ipv6": &c.NodeCIDRMaskSizeIPv6,
	} {
		n, err := number(v, flags, key, 31)
		if err != nil {
			return err
		}
		*to = cmp.Or(int(n), *to)
	}
	return nil
}

// loadTexts reads the flags and variables with texts.
func (c *Config) loadTexts(v *viper.Viper, flags *pflag.FlagSet) {
	for key, to := range map[string]*string{
		"data-dir": &c.DataDir, "listen": &c.Listen, "write-kubeconfig": &c.WriteKubeconfig, "token-auth-file": &c.TokenAuthFile,
		"pod-manifest-path": &c.Kubelet.StaticPodPath,
		"audit-policy-file": &c.AuditPolicyFile, "audit-log-path": &c.AuditLogPath,
		"store": &c.Store, "scheduler-config": &c.SchedulerConfig, "scheduler-listen": &c.SchedulerListen, "log-level": &c.LogLevel, "clock": &c.Clock, "memory-limit": &c.MemoryLimit, "cluster-cidr": &c.ClusterCIDR, "kubeconfig": &c.Kubeconfig,
	} {
		if s := v.GetString(key); s != "" || flags.Changed(key) { // an empty flag takes back a setting of the last start
			*to = s
		}
	}
}

// commaList splits the elements at commas and spaces, which viper does not do for variables.
func commaList(list []string) []string {
	return strings.FieldsFunc(strings.Join(list, ","), func(r rune) bool { return r == ',' || r == ' ' })
}

// switches parses a list of NAME=true and NAME=false.
func switches(list []string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, item := range list {
		name, value, _ := strings.Cut(item, "=")
		on, err := strconv.ParseBool(value)
		if err != nil {
			return nil, fmt.Errorf("%q is not NAME=true or NAME=false", item)
		}
		out[name] = on
	}
	return out, nil
}

// number reads a number from a flag or a variable. viper would read text that is no number as 0.
func number(v *viper.Viper, flags *pflag.FlagSet, key string, bits int) (uint64, error) {
	s := v.GetString(key)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number from 0 to %d", sourceOf(flags, key), s, uint64(math.MaxUint64)>>(64-bits))
	}
	return n, nil
}

// loadNodeLifecycle reads the flags and variables about the health of nodes.
func (c *Config) loadNodeLifecycle(v *viper.Viper, flags *pflag.FlagSet) error {
	for key, to := range map[string]**float64{
		"node-eviction-rate": &c.NodeEvictionRate, "secondary-node-eviction-rate": &c.SecondaryNodeEvictionRate, "unhealthy-zone-threshold": &c.UnhealthyZoneThreshold,
	} {
		if !v.IsSet(key) {
			continue
		}
		f, err := strconv.ParseFloat(v.GetString(key), 64)
		if err != nil {
			return fmt.Errorf("%s: %q is not a number", sourceOf(flags, key), v.GetString(key))
		}
		*to = new(f)
	}
	if key := "large-cluster-size-threshold"; v.IsSet(key) {
		n, err := number(v, flags, key, 31)
		if err != nil {
			return err
		}
		c.LargeClusterSizeThreshold = new(int(n))
	}
	for key, to := range map[string]*metav1.Duration{
		"node-monitor-period": &c.NodeMonitorPeriod, "node-monitor-grace-period": &c.NodeMonitorGracePeriod, "node-startup-grace-period": &c.NodeStartupGracePeriod,
	} {
		s := v.GetString(key)
		if !v.IsSet(key) {
			continue
		}
		d, err := plug.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%s: %w", sourceOf(flags, key), err)
		}
		to.Duration = d
	}
	return nil
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
