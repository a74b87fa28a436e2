package daemon

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/plug"
)

//go:generate go run ./internal/configdoc

// Config is what a daemon is told. It is read from a file (YAML), MINIKCTL_* variables and flags, the later ones winning;
// variables and flags exist for the settings that are one value. Relative paths in the file are taken from its folder.
type Config struct {
	// Name tells daemons apart: each has its own data, socket, context and address range. It is no setting of the file's:
	// every command must know it, from --name or MINIKCTL_NAME.
	Name string `json:"-"`
	// DataDir is where everything is kept. Default ~/.minikctl/NAME.
	DataDir string `json:"dataDir,omitempty"`
	// Listen is the API's HOST:PORT; port 0 picks a free one. Default 127.0.0.1:0, and later the port it had before.
	Listen string `json:"listen,omitempty"`
	// Only names the parts to run, of apiserver, controllers, scheduler and kubelet. Default: all.
	Only []string `json:"only,omitempty"`
	// Kubeconfig leads to the API server when this daemon runs none.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// WriteKubeconfig is a file that a kubeconfig for the admin is written to once the API answers. Default: the context
	// is merged into ~/.kube/config (or $KUBECONFIG).
	WriteKubeconfig string `json:"writeKubeconfig,omitempty"`
	// TokenAuthFile is a CSV file of static tokens: token,user,uid,"group1,group2".
	TokenAuthFile string `json:"tokenAuthFile,omitempty"`
	// AuditPolicyFile is a Policy of audit.k8s.io/v1 that says which requests the audit log tells of, and how much. Default:
	// there is no audit log.
	AuditPolicyFile string `json:"auditPolicyFile,omitempty"`
	// AuditLogPath is the file of the audit log, a line of JSON for each event; - is the standard output.
	AuditLogPath string `json:"auditLogPath,omitempty"`
	// AuditLogMaxSize is how many megabytes a file of the audit log may have before another is begun. Default 100.
	AuditLogMaxSize int `json:"auditLogMaxSize,omitempty"`
	// AuditLogMaxBackup is how many old files of the audit log are kept. Default: all.
	AuditLogMaxBackup int `json:"auditLogMaxBackup,omitempty"`
	// AuditLogMaxAge is for how many days old files of the audit log are kept. Default: for ever.
	AuditLogMaxAge int `json:"auditLogMaxAge,omitempty"`
	// Store is the driver of the state: badger or memory. Default badger.
	Store string `json:"store,omitempty"`
	// SchedulerConfig is a file with a KubeSchedulerConfiguration, read again when it changes.
	SchedulerConfig string `json:"schedulerConfig,omitempty"`
	// Nodes are the nodes of this daemon. Default: one that runs processes.
	Nodes []NodeConfig `json:"nodes,omitempty"`
	// Images maps an image's name to what runs instead: a built-in (minikctl.dev/web), a folder, or a command.
	Images map[string]ImageConfig `json:"images,omitempty"`
	// HostCommands lets a pod that gives a command, with an image that is not known, run the host's program. Default true.
	HostCommands *bool `json:"hostCommands,omitempty"`
	// Seed makes UIDs and generated names the same for the same seed. Default 0: random.
	Seed uint64 `json:"seed,omitempty"`
	// LogLevel is debug, info, warn or error. Default info.
	LogLevel string `json:"logLevel,omitempty"`
}

// NodeConfig describes nodes that are alike.
type NodeConfig struct {
	// Count is how many there are. Default 1.
	Count int `json:"count,omitempty"`
	// Name is the name of one, or what the names of several begin with: -1, -2 … is added. Default "node", or "sim" for
	// simulated ones, always with a number.
	Name string `json:"name,omitempty"`
	// Runtime runs their pods. Default: process.
	Runtime RuntimeConfig `json:"runtime,omitzero"`
	// Capacity is what they say they have, e.g. cpu: 4. What is left out is this machine's.
	Capacity map[corev1.ResourceName]resource.Quantity `json:"capacity,omitempty"`
	// Labels are added to those that every node has.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints keep pods away that do not tolerate them, as in a Node's spec.
	Taints []corev1.Taint `json:"taints,omitempty"`
}

// RuntimeConfig names a runtime: process or sim.
type RuntimeConfig struct {
	// Name is process or sim. Default process.
	Name string `json:"name,omitempty"`
}

// ImageConfig says what an image stands for. In the file it is either a string (a built-in or a folder) or a list (a
// command).
type ImageConfig struct {
	Ref     string
	Command []string
}

// UnmarshalJSON reads either form.
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

// MarshalJSON writes the form that was read.
func (i ImageConfig) MarshalJSON() ([]byte, error) {
	if i.Command != nil {
		return json.Marshal(i.Command)
	}
	return json.Marshal(i.Ref)
}

// Parts are the parts that a daemon can run, in the order in which they start.
var Parts = []string{"apiserver", "controllers", "scheduler", "kubelet"}

// Runs reports whether the daemon runs a part.
func (c *Config) Runs(part string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, part) }

// AddFlags adds the flags of up to flags.
func AddFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "config file (default ~/.minikctl/config.yaml where it exists)")
	flags.String("data-dir", "", "where everything is kept (default ~/.minikctl/NAME)")
	flags.String("listen", "", "HOST:PORT of the API; port 0 picks a free one (default 127.0.0.1:0)")
	flags.StringSlice("only", nil, "run only these parts: "+strings.Join(Parts, ", "))
	flags.String("write-kubeconfig", "", "write the admin's kubeconfig to this file instead of merging it into ~/.kube/config")
	flags.String("token-auth-file", "", `CSV file of static tokens: token,user,uid,"group1,group2"`)
	flags.String("audit-policy-file", "", "file with the Policy of the audit log (default: there is no audit log)")
	flags.String("audit-log-path", "", "file of the audit log; - is the standard output")
	flags.Int("audit-log-maxsize", 0, "megabytes of a file of the audit log before another is begun (default 100)")
	flags.Int("audit-log-maxbackup", 0, "how many old files of the audit log are kept (default all)")
	flags.Int("audit-log-maxage", 0, "for how many days old files of the audit log are kept (default for ever)")
	flags.String("store", "", "where the state is kept: badger or memory (default badger)")
	flags.String("scheduler-config", "", "file with a KubeSchedulerConfiguration, read again when it changes")
	flags.Int("nodes", 0, "how many nodes that run processes (default 1)")
	flags.Int("sim-nodes", 0, "how many simulated nodes")
	flags.Uint64("seed", 0, "make UIDs and names repeatable")
	flags.String("log-level", "", "debug, info, warn or error (default info)")
}

// Load reads the config of the daemon called name: the file, then MINIKCTL_* variables, then flags.
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
	if v.GetString("config") == "" {
		paths := PathsOf(name)
		if dir := v.GetString("data-dir"); dir != "" {
			paths = PathsIn(name, dir)
		}
		if err := cfg.recall(paths); err != nil {
			return nil, err
		}
	}
	if err := cfg.readFile(v.GetString("config")); err != nil {
		return nil, err
	}
	cfg.Name = name
	for key, to := range map[string]*string{
		"data-dir": &cfg.DataDir, "listen": &cfg.Listen, "write-kubeconfig": &cfg.WriteKubeconfig, "token-auth-file": &cfg.TokenAuthFile,
		"audit-policy-file": &cfg.AuditPolicyFile, "audit-log-path": &cfg.AuditLogPath,
		"store": &cfg.Store, "scheduler-config": &cfg.SchedulerConfig, "log-level": &cfg.LogLevel, "kubeconfig": &cfg.Kubeconfig,
	} {
		if s := v.GetString(key); s != "" {
			*to = s
		}
	}
	if only := commaList(v.GetStringSlice("only")); len(only) > 0 {
		cfg.Only = only
	}
	seed, err := number(v, flags, "seed", 64)
	if err != nil {
		return nil, err
	}
	cfg.Seed = cmp.Or(seed, cfg.Seed)
	for key, to := range map[string]*int{
		"audit-log-maxsize": &cfg.AuditLogMaxSize, "audit-log-maxbackup": &cfg.AuditLogMaxBackup, "audit-log-maxage": &cfg.AuditLogMaxAge,
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
	return cfg, cfg.complete()
}

// commaList splits at commas, which viper does not do in variables.
func commaList(list []string) []string {
	return strings.FieldsFunc(strings.Join(list, ","), func(r rune) bool { return r == ',' || r == ' ' })
}

// number reads a flag or variable, of which viper would take what is no number for 0.
func number(v *viper.Viper, flags *pflag.FlagSet, key string, bits int) (uint64, error) {
	s := v.GetString(key)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a number from 0", said(flags, key), s)
	}
	return n, nil
}

// said names what a setting came from that is not of the file: its flag or its variable.
func said(flags *pflag.FlagSet, key string) string {
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

// resolve makes the file's relative paths relative to nothing: a daemon that starts by itself starts anywhere.
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
	for _, p := range []*string{&c.DataDir, &c.Kubeconfig, &c.WriteKubeconfig, &c.TokenAuthFile, &c.SchedulerConfig, &c.AuditPolicyFile} {
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

// addNodes replaces the file's nodes when a count was given by flag or variable.
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

// complete fills in the defaults and checks what can be checked before anything starts.
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
	for _, part := range c.Only {
		if !slices.Contains(Parts, part) {
			return fmt.Errorf("--only: %q is not one of [%s]", part, strings.Join(Parts, " "))
		}
	}
	if !c.Runs("apiserver") && c.Kubeconfig == "" {
		return errors.New("--only without apiserver needs --kubeconfig, to reach the API server")
	}
	if err := c.checkAudit(); err != nil {
		return err
	}
	if len(c.Nodes) == 0 {
		c.Nodes = []NodeConfig{{}}
	}
	return c.completeNodes()
}

// checkAudit wants both a policy and a log, or neither: each alone would look like an audit log and be none.
func (c *Config) checkAudit() error {
	switch {
	case c.AuditPolicyFile != "" && c.AuditLogPath == "":
		return errors.New("--audit-policy-file needs --audit-log-path, to write the audit log to")
	case c.AuditPolicyFile == "" && c.AuditLogPath != "":
		return errors.New("--audit-log-path needs --audit-policy-file, which says what is written")
	case min(c.AuditLogMaxSize, c.AuditLogMaxBackup, c.AuditLogMaxAge) < 0:
		return errors.New("auditLogMaxSize, auditLogMaxBackup and auditLogMaxAge may not be negative")
	}
	for _, p := range []*string{&c.AuditPolicyFile, &c.AuditLogPath} { // a later start may stand elsewhere
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
		if _, err := runtimes.Find(n.Runtime.Name); err != nil {
			return fmt.Errorf("nodes[%d].runtime: %w", i, err)
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

// checkNodeNames refuses names that the API would refuse, and those that two nodes would have.
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
