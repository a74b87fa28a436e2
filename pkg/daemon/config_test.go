package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"

	"github.com/minikctl/minikctl/pkg/images"
)

// load loads a config in a new home, as up does. file is the config file, "" for none.
func load(t *testing.T, file string, args ...string) (*Config, error) {
	t.Helper()
	home := real(t.TempDir())
	t.Setenv("MINIKCTL_HOME", home)
	if file != "" {
		if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
	flags.String("kubeconfig", "", "")
	AddFlags(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load("dev", flags)
}

func TestLoadDefaults(t *testing.T) {
	got, err := load(t, "")
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{Name: "dev", DataDir: filepath.Join(Home(), "dev"), Listen: "127.0.0.1:0", Store: "badger", LogLevel: "info",
		Nodes: []NodeConfig{{Count: 1, Name: "node", Runtime: RuntimeConfig{Name: "process"}}}}
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Config{})); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	for _, part := range Parts {
		if !got.Runs(part) {
			t.Errorf("does not run %s", part)
		}
	}
}

// TestLoadPrecedence: flags win over variables, and those over the file.
func TestLoadPrecedence(t *testing.T) {
	for _, c := range []struct{ flag, variable, key, values string }{
		{"listen", "MINIKCTL_LISTEN", "listen", "127.0.0.1:1 127.0.0.1:2 127.0.0.1:3"},
		{"store", "MINIKCTL_STORE", "store", "memory badger memory"},
		{"log-level", "MINIKCTL_LOG_LEVEL", "logLevel", "debug warn error"},
		{"data-dir", "MINIKCTL_DATA_DIR", "dataDir", "/a /b /c"},
		{"kubeconfig", "MINIKCTL_KUBECONFIG", "kubeconfig", "/a /b /c"},
		{"write-kubeconfig", "MINIKCTL_WRITE_KUBECONFIG", "writeKubeconfig", "/a /b /c"},
		{"token-auth-file", "MINIKCTL_TOKEN_AUTH_FILE", "tokenAuthFile", "/a /b /c"},
		{"scheduler-config", "MINIKCTL_SCHEDULER_CONFIG", "schedulerConfig", "/a /b /c"},
		{"seed", "MINIKCTL_SEED", "seed", "1 2 3"},
	} {
		t.Run(c.key, func(t *testing.T) {
			v := strings.Fields(c.values)
			get := func(cfg *Config, err error) string {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				b, err := json.Marshal(cfg)
				if err != nil {
					t.Fatal(err)
				}
				m := map[string]any{}
				d := json.NewDecoder(strings.NewReader(string(b)))
				d.UseNumber()
				if err := d.Decode(&m); err != nil {
					t.Fatal(err)
				}
				if n, ok := m[c.key].(json.Number); ok {
					return n.String()
				}
				s, _ := m[c.key].(string)
				return s
			}
			file := c.key + ": " + v[0] + "\n"
			if got := get(load(t, file)); got != v[0] {
				t.Errorf("file: got %q, want %q", got, v[0])
			}
			t.Setenv(c.variable, v[1])
			if got := get(load(t, file)); got != v[1] {
				t.Errorf("variable over file: got %q, want %q", got, v[1])
			}
			if got := get(load(t, file, "--"+c.flag, v[2])); got != v[2] {
				t.Errorf("flag over both: got %q, want %q", got, v[2])
			}
		})
	}
}

func TestLoadAudit(t *testing.T) {
	t.Setenv("MINIKCTL_AUDIT_LOG_MAXBACKUP", "7")
	got, err := load(t, "auditPolicyFile: p.yaml\nauditLogPath: '-'\nauditLogMaxSize: 3\nauditLogMaxAge: 4\n", "--audit-log-maxage", "9")
	if err != nil {
		t.Fatal(err)
	}
	if got.AuditPolicyFile != filepath.Join(Home(), "p.yaml") || got.AuditLogPath != "-" || got.AuditLogMaxSize != 3 || got.AuditLogMaxBackup != 7 || got.AuditLogMaxAge != 9 {
		t.Errorf("%+v", got)
	}
	if got, err = load(t, "", "--audit-policy-file=p", "--audit-log-path=l"); err != nil || !filepath.IsAbs(got.AuditPolicyFile) || !filepath.IsAbs(got.AuditLogPath) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range [][]string{
		{"--audit-policy-file=p", "--audit-policy-file requires --audit-log-path"},
		{"--audit-log-path=p", "--audit-log-path requires --audit-policy-file"},
		{"--audit-log-maxsize=-1", "is not a number from 0"},
	} {
		if _, err := load(t, "", c[0]); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v", c[0], err)
		}
	}
}

func TestLoadParts(t *testing.T) {
	for _, c := range []struct{ name, file, variable, flag, want string }{
		{"file", "only: [apiserver, kubelet]", "", "", "apiserver kubelet"},
		{"variable, with commas", "only: [kubelet]", "apiserver,scheduler", "", "apiserver scheduler"},
		{"variable, with spaces", "", "apiserver scheduler", "", "apiserver scheduler"},
		{"flag", "only: [kubelet]", "scheduler", "apiserver,controllers", "apiserver controllers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("MINIKCTL_ONLY", c.variable)
			var args []string
			if c.flag != "" {
				args = []string{"--only", c.flag}
			}
			cfg, err := load(t, c.file, args...)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(cfg.Only, " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if cfg.Runs("kubelet") != strings.Contains(c.want, "kubelet") {
				t.Errorf("Runs(kubelet) = %v", cfg.Runs("kubelet"))
			}
		})
	}
}

func TestLoadNodes(t *testing.T) {
	const file = "nodes: [{count: 2, name: worker}, {name: big, labels: {a: b}}]"
	for _, c := range []struct {
		name, file string
		variable   string // MINIKCTL_NODES
		args       []string
		want       string // names and runtimes
	}{
		{"default", "", "", nil, "node-1:process"},
		{"file", file, "", nil, "worker-1:process worker-2:process big:process"},
		{"simulated", "nodes: [{runtime: {name: sim}}]", "", nil, "sim-1:sim"},
		{"variable replaces the file's", file, "2", nil, "node-1:process node-2:process"},
		{"flag wins over the variable", file, "2", []string{"--nodes", "1"}, "node-1:process"},
		{"both kinds", "", "", []string{"--nodes", "1", "--sim-nodes", "2"}, "node-1:process sim-1:sim sim-2:sim"},
		{"simulated only", "", "", []string{"--sim-nodes", "2"}, "sim-1:sim sim-2:sim"},
		{"none", "", "", []string{"--nodes", "0"}, ""},
		{"none, by a variable", file, "0", nil, ""},
		{"none, by a file", "nodes: []", "", nil, ""},
		{"0 simulated nodes beside the default", "", "", []string{"--sim-nodes", "0"}, "node-1:process"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("MINIKCTL_NODES", c.variable)
			cfg, err := load(t, c.file, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range cfg.Nodes {
				for _, name := range n.names() {
					got = append(got, name+":"+n.Runtime.Name)
				}
			}
			if g := strings.Join(got, " "); g != c.want {
				t.Errorf("got  %s\nwant %s", g, c.want)
			}
		})
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, c := range []struct {
		name, file, variable string
		args                 []string
		want                 string
	}{
		{"unknown field", "node: []", "", nil, `config.yaml: unknown field "node"`},
		{"unknown field below", "nodes: [{cout: 1}]", "", nil, `config.yaml: unknown field "cout"`},
		{"a name is no setting of the file", "name: x", "", nil, `config.yaml: unknown field "name"`},
		{"a key twice", "store: memory\nstore: badger", "", nil, `key "store" already set in map`},
		{"no YAML", "nodes: [", "", nil, "config.yaml: "},
		{"no such file", "", "", []string{"--config", "/nowhere.yaml"}, "read config: open /nowhere.yaml: no such file or directory"},
		{"part", "only: [etcd]", "", nil, `--only: "etcd" is not one of [apiserver controllers scheduler kubelet]`},
		{"controllers", "controllers: ['*', -crons]", "", nil, `controllers: "crons" is not in the list of known controllers`},
		{"podCIDRs without a range", "allocateNodeCIDRs: true\nnodes: [{runtime: {name: sim}}]", "", nil, "allocateNodeCIDRs: Must specify --cluster-cidr if --allocate-node-cidrs is set"},
		{"podCIDRs of nodes with processes", "", "", []string{"--allocate-node-cidrs", "--cluster-cidr", "10.244.0.0/16"}, "allocateNodeCIDRs: only simulated nodes can have podCIDRs"},
		{"parts without a server", "only: [kubelet]", "", nil, "--only without apiserver needs --kubeconfig"},
		{"store", "store: etcd", "", nil, `store: store "etcd" is not one of [badger memory]`},
		{"log level", "logLevel: loud", "", nil, `logLevel: "loud" is not one of [debug info warn error]`},
		{"runtime", "nodes: [{}, {name: b, runtime: {name: docker}}]", "", nil, `nodes[1].runtime: runtime "docker" is not one of [` + strings.Join(drivers.Names(), " ") + "]"},
		{"negative count", "nodes: [{count: -1}]", "", nil, "nodes[0].count: -1 is negative"},
		{"node name", "nodes: [{name: A_b}]", "", nil, `nodes[0].name: "A_b": a lowercase RFC 1123 subdomain`},
		{"a node twice", "nodes: [{count: 2}, {name: x}, {count: 1, name: node}]", "", nil, `nodes[2].name: "node-1" is a node of nodes[0] already`},
		{"taint effect", "nodes: [{}, {name: b, taints: [{key: k, effect: NoScedule}]}]", "", nil,
			`nodes[1].taints[0].effect: "NoScedule" is not one of [NoSchedule PreferNoSchedule NoExecute]`},
		{"taint key", "nodes: [{taints: [{key: a b, effect: NoSchedule}]}]", "", nil, `nodes[0].taints[0].key: "a b": name part must consist of`},
		{"taint value", "nodes: [{taints: [{key: k, value: a b, effect: NoSchedule}]}]", "", nil, `nodes[0].taints[0].value: "a b": a valid label`},
		{"a duration", "nodeMonitorPeriod: 5", "", nil, `nodeMonitorPeriod: a number is not a string`},
		{"a duration in words", "nodeMonitorPeriod: soon", "", nil, `config.yaml: nodeMonitorPeriod: "soon" is not a duration such as 90m`},
		{"a long duration", "logLevel: info\nbackup: {keep: 3, every: 9999999h}", "", nil, `config.yaml: backup.every: "9999999h" is out of range: a duration is at most 2562047h`},
		{"a quantity", "nodes: [{name: a}, {capacity: {memory: 1Gi, cpu: many}}]", "", nil, `config.yaml: nodes[1].capacity.cpu: "many" is not a quantity such as 2Gi`},
		{"a port", "listen: 127.0.0.1:no-such", "", nil, `listen: the port "no-such" is not a number from 0 to 65535`},
		{"a port out of range", "", "", []string{"--listen", "127.0.0.1:99999"}, `listen: the port "99999" is not a number from 0 to 65535`},
		{"no port", "", "", []string{"--listen", "127.0.0.1"}, `listen: "127.0.0.1" is not HOST:PORT`},
		{"too many nodes", "", "", []string{"--nodes", "3000000000"}, `--nodes: "3000000000" is not a number from 0 to 2147483647`},
		{"nodes in words", "", "three", nil, `MINIKCTL_NODES: "three" is not a number from 0`},
		{"nodes below zero", "", "", []string{"--nodes", "-1"}, `--nodes: "-1" is not a number from 0`},
		{"simulated nodes below zero", "", "", []string{"--sim-nodes", "-1"}, `--sim-nodes: "-1" is not a number from 0`},
		{"image of nothing", `images: {a: ""}`, "", nil, `image "" is neither a string, nor a list of strings, nor an object`},
		{"image of an empty command", `images: {a: []}`, "", nil, `image [] is neither a string, nor a list of strings, nor an object`},
		{"image of something else", `images: {a: {b: c}}`, "", nil, `image {"b":"c"}: unknown field "b"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("MINIKCTL_NODES", c.variable)
			cfg, err := load(t, c.file, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v\nerror %v\nwant  %s", cfg, err, c.want)
			}
		})
	}
}

func TestLoadImages(t *testing.T) {
	cfg, err := load(t, `
images:
  web: minikctl.dev/web
  directory: ./here
  dir: dir:here
  abs: /there
  cmd: [sleep, "1"]
  own: [bin/app]
  app: {dir: site, entrypoint: [bin/app, -v], args: [--fast], env: {B: "2", A: "1"}, workingDir: data, user: "12:34"}
hostCommands: false
schedulerConfig: ./s.yaml`)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(Home(), name) }
	want := images.Config{NoHostCommands: true, Map: map[string]images.Source{
		"web": {Image: "minikctl.dev/web"}, "directory": {Root: in("here")}, "dir": {Root: in("here")}, "abs": {Root: "/there"},
		"cmd": {Entrypoint: []string{"sleep", "1"}}, "own": {Entrypoint: []string{in("bin/app")}},
		"app": {
			Root: in("site"), Entrypoint: []string{"bin/app", "-v"}, Args: []string{"--fast"}, Env: []string{"A=1", "B=2"}, Dir: in("data"), User: "12:34",
		},
	}}
	if got := cfg.imageConfig(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if want := filepath.Join(Home(), "s.yaml"); cfg.SchedulerConfig != want {
		t.Errorf("schedulerConfig: got %s, want %s", cfg.SchedulerConfig, want)
	}
	b, err := json.Marshal(cfg.Images)
	if err != nil {
		t.Fatal(err)
	}
	again := map[string]ImageConfig{}
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(again, cfg.Images) {
		t.Errorf("%s reads as %+v, %v", b, again, err)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		node NodeConfig
		want []string
	}{
		{NodeConfig{Count: 1, Name: "node"}, []string{"node-1"}},
		{NodeConfig{Count: 1, Name: "sim"}, []string{"sim-1"}},
		{NodeConfig{Count: 1, Name: "big"}, []string{"big"}},
		{NodeConfig{Count: 3, Name: "big"}, []string{"big-1", "big-2", "big-3"}},
	} {
		if got := c.node.names(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: got %v, want %v", c.node, got, c.want)
		}
	}
}

// restart loads a config in a home whose cluster dev was started with the settings kept. global is the file of the home,
// file the one that --config names; "" for none.
func restart(t *testing.T, kept, global, file string, args ...string) (*Config, error) {
	t.Helper()
	dir := real(t.TempDir())
	t.Setenv("MINIKCTL_HOME", dir)
	for name, text := range map[string]string{filepath.Join("dev", "settings.yaml"): kept, "config.yaml": global, "own.yaml": file} {
		if text == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Join(dir, "dev"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
	flags.String("kubeconfig", "", "")
	AddFlags(flags)
	if file != "" {
		args = append(args, "--config", filepath.Join(dir, "own.yaml"))
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return Load("dev", flags)
}

// TestLoadSettingsOfLastStart: the settings of a cluster win over the global file, each as a whole, and nodes that a later start no longer
// has leave the cluster.
func TestLoadSettingsOfLastStart(t *testing.T) {
	const kept = "nodes: [{count: 3, name: node, runtime: {name: process}}]\nimages: {a: minikctl.dev/web}\n"
	for _, c := range []struct {
		name, kept, global, file string
		args                     []string
		nodes, leaving           string
		images                   int
	}{
		{"kept only", kept, "", "", nil, "node-1 node-2 node-3", "", 1},
		{"a global file with other lists", kept, "nodes: [{count: 5, name: big}, {count: 2, name: more}]\nimages: {b: minikctl.dev/web}\nlogLevel: debug",
			"", nil, "node-1 node-2 node-3", "", 1},
		{"a global file for a new cluster", "", "nodes: [{count: 2, name: big}]", "", nil, "big-1 big-2", "", 0},
		{"a file of its own replaces", kept, "", "nodes: [{name: node}, {name: x}]", nil, "node-1 x", "node-2 node-3", 0},
		{"a flag replaces the nodes alone", kept, "", "", []string{"--nodes", "1"}, "node-1", "node-2 node-3", 1},
		{"more nodes", kept, "", "", []string{"--nodes", "4"}, "node-1 node-2 node-3 node-4", "", 1},
		{"still leaving", kept + "leaving: [{name: old, count: 1, runtime: {name: sim}}]", "", "", nil, "node-1 node-2 node-3", "old", 1},
		{"a removed node is configured again", kept + "leaving: [{name: old, count: 1, runtime: {name: process}}]", "", "nodes: [{name: old}]", nil, "old", "node-1 node-2 node-3", 0},
		{"no nodes", "nodes: []", "nodes: [{name: x}]", "", nil, "", "", 0},
		{"0 nodes", kept, "", "", []string{"--nodes", "0"}, "", "node-1 node-2 node-3", 1},
		{"a start without kubelets", kept, "", "", []string{"--nodes", "1", "--only", "apiserver"}, "node-1", "node-2 node-3", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := restart(t, c.kept, c.global, c.file, c.args...)
			if err != nil {
				t.Fatal(err)
			}
			namesOf := func(nodes []NodeConfig) string {
				var all []string
				for _, n := range nodes {
					all = append(all, n.names()...)
				}
				return strings.Join(all, " ")
			}
			if got := namesOf(cfg.Nodes); got != c.nodes {
				t.Errorf("nodes: got %s, want %s", got, c.nodes)
			}
			if got := namesOf(cfg.leaving); got != c.leaving {
				t.Errorf("leaving: got %s, want %s", got, c.leaving)
			}
			if len(cfg.Images) != c.images {
				t.Errorf("images: %v", cfg.Images)
			}
			if want := map[bool]string{true: "debug", false: "info"}[strings.Contains(c.global, "debug")]; cfg.LogLevel != want {
				t.Errorf("logLevel, which belongs to a start: got %s, want %s", cfg.LogLevel, want)
			}
		})
	}
	if _, err := restart(t, kept, "", "nodes: [{count: 3, runtime: {name: sim}, name: node}]"); err == nil || !strings.Contains(err.Error(), "node node-1 can't change its runtime from process to sim") {
		t.Errorf("a node with another runtime: %v", err)
	}
}

// TestLoadSchedulerListen: the address of the scheduler's server is kept for the next start.
func TestLoadSchedulerListen(t *testing.T) {
	for _, c := range []struct {
		kept, global, want string
		args               []string
	}{
		{"schedulerListen: a:1", "schedulerListen: b:2", "a:1", nil},
		{"", "schedulerListen: b:2", "b:2", nil},
		{"schedulerListen: a:1", "", "c:3", []string{"--scheduler-listen", "c:3"}},
	} {
		cfg, err := restart(t, c.kept, c.global, "", c.args...)
		if err != nil {
			t.Fatal(err)
		}
		if kept := cfg.clusterSettings(); cfg.SchedulerListen != c.want || kept.SchedulerListen != c.want {
			t.Errorf("%+v: got %q, kept %q", c, cfg.SchedulerListen, kept.SchedulerListen)
		}
	}
}

// TestLoadRelativePaths: the paths of flags and variables are those of the directory in which up runs, also for a later start in another one.
func TestLoadRelativePaths(t *testing.T) {
	dir := real(t.TempDir())
	t.Chdir(dir)
	t.Setenv("MINIKCTL_TOKEN_AUTH_FILE", "tokens")
	cfg, err := load(t, "auditPolicyFile: policy\n", "--scheduler-config", "scheduler.yaml", "--audit-log-path", "-")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.SchedulerConfig != filepath.Join(dir, "scheduler.yaml") || cfg.TokenAuthFile != filepath.Join(dir, "tokens") ||
		cfg.AuditPolicyFile != filepath.Join(Home(), "policy") || cfg.AuditLogPath != "-" || cfg.Kubeconfig != "" {
		t.Errorf("got %q %q %q %q %q", cfg.SchedulerConfig, cfg.TokenAuthFile, cfg.AuditPolicyFile, cfg.AuditLogPath, cfg.Kubeconfig)
	}
}
