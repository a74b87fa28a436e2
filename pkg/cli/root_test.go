package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/minikctl/minikctl/pkg/autostart"
	"github.com/minikctl/minikctl/pkg/daemon"
	_ "github.com/minikctl/minikctl/pkg/early" // a daemon's containers and their supervisor are this test binary
	"github.com/minikctl/minikctl/pkg/schedplugins"
)

// TestMain lets a command of a test start a daemon, which is this program under the name minikctl.
func TestMain(m *testing.M) {
	if os.Args[0] == "minikctl" {
		os.Exit(Run(context.Background(), schedplugins.Registry, os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func rootOf(args ...string) *cobra.Command {
	return newRoot(schedplugins.Registry, args, strings.NewReader(""), io.Discard, io.Discard)
}

// run runs a command line whose verbs do not end the program.
func run(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Run(t.Context(), schedplugins.Registry, args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestFirstVerb(t *testing.T) {
	flags := rootOf("minikctl", "up").PersistentFlags()
	for line, want := range map[string]string{
		"": "", "get pods": "get", "-n shop get pods": "get", "-nshop get": "get", "--namespace shop get": "get", "--namespace=shop get": "get",
		"--insecure-skip-tls-verify get": "get", "--name two up -d": "up", "--match-server-version get": "get", "--help": "", "-h get": "get",
		"--cache_dir x get": "get", "-s https://x get": "get", "--unknown get": "get", "help get": "help", "-n": "", "__complete g": "__complete",
	} {
		if got := firstVerb(strings.Fields(line), flags); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

// TestVerbs checks that each verb exists once, under its name and in a group, and that it can be built alone.
func TestVerbs(t *testing.T) {
	root := rootOf("minikctl")
	var titles []string
	for _, g := range groups {
		titles = append(titles, g.ID)
	}
	count := map[string]int{}
	for _, cmd := range root.Commands() {
		count[cmd.Name()]++
		if !slices.Contains(titles, cmd.GroupID) {
			t.Errorf("%s is in no group (%q)", cmd.Name(), cmd.GroupID)
		}
		if cmd.Short == "" {
			t.Errorf("%s has no short help", cmd.Name())
		}
	}
	for _, v := range verbs {
		if count[v.name] != 1 {
			t.Errorf("%s is there %d times", v.name, count[v.name])
		}
		alone := rootOf("minikctl", v.name).Commands()
		if len(alone) != 1 || alone[0].Name() != v.name {
			t.Errorf("%s alone builds %d verbs", v.name, len(alone))
		}
	}
	code, help, _ := run(t, "minikctl", "help")
	if code != 0 {
		t.Errorf("help ends with %d", code)
	}
	for _, v := range verbs {
		if n := len(regexp.MustCompile(`(?m)^  `+regexp.QuoteMeta(v.name)+` `).FindAllString(help, -1)); n != 1 {
			t.Errorf("help lists %s %d times", v.name, n)
		}
	}
}

// TestReadme checks that the verbs and flags of README's commands exist.
func TestReadme(t *testing.T) {
	b, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, m := range regexp.MustCompile("(?m)(?:^|; |`|/)minikctl ([a-z][^`;#\n]*)").FindAllStringSubmatch(code(string(b)), -1) {
		words := strings.Fields(m[1])
		if words[0] == "help" || words[0] == "kubectl" { // cobra's own, and ln -s minikctl kubectl
			continue
		}
		commands++
		root := rootOf("minikctl", words[0])
		cmd, _, err := root.Find(words)
		if err != nil || cmd == root {
			t.Errorf("minikctl %s: there is no such verb", m[1])
			continue
		}
		cmd.InitDefaultHelpFlag()
		for _, w := range words[1:] {
			if w == "--" {
				break
			}
			if flag, ok := strings.CutPrefix(w, "--"); ok {
				flag, _, _ = strings.Cut(flag, "=")
				if cmd.Flag(flag) == nil {
					t.Errorf("minikctl %s: there is no flag --%s", m[1], flag)
				}
			}
		}
	}
	if commands < 10 {
		t.Errorf("found %d commands only", commands)
	}
}

// code returns the text of code blocks and spans.
func code(markdown string) string {
	var out strings.Builder
	for i, block := range strings.Split(markdown, "```") {
		if i%2 == 1 {
			out.WriteString(block)
			continue
		}
		for _, span := range regexp.MustCompile("`[^`\n]+`").FindAllString(block, -1) {
			out.WriteString(span + "\n")
		}
	}
	return out.String()
}

func TestCalledAsKubectl(t *testing.T) {
	t.Setenv("MINIKCTL_HOME", t.TempDir())
	for _, name := range []string{"kubectl", "/usr/local/bin/kubectl", "kubectl.exe"} {
		root := rootOf(name, "get", "pods")
		if root.Use != "kubectl" || root.PersistentFlags().Lookup("name") != nil {
			t.Errorf("%s: is %s, --name: %v", name, root.Use, root.PersistentFlags().Lookup("name"))
		}
	}
	target := newTarget(true, io.Discard)
	target.AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
	if target.local() {
		t.Error("kubectl connects to the local daemon")
	}
	if err := target.ready(); err != nil {
		t.Error(err)
	}
	if got, want := target.Paths(), daemon.PathsOf("minikctl"); got != want {
		t.Errorf("down would end %+v", got)
	}
}

func TestTarget(t *testing.T) {
	t.Setenv("MINIKCTL_HOME", t.TempDir())
	t.Setenv("MINIKCTL_AUTOSTART", "false")
	for _, c := range []struct {
		args  string
		local bool
		err   string
	}{
		{"", true, `no daemon "minikctl" runs; start it with: minikctl up -d`},
		{"--name two -n shop", true, `no daemon "two" runs; start it with: minikctl up -d --name two`},
		{"--name ../two", true, `--name: "../two" is not a name`},
		{"--server https://127.0.0.1:1", false, ""}, {"--kubeconfig x", false, ""}, {"--context x", false, ""}, {"--cluster x", false, ""}, {"--user x", false, ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			var notice bytes.Buffer
			target, flags := newTarget(false, &notice), pflag.NewFlagSet("", pflag.ContinueOnError)
			target.verb = "get"
			target.AddFlags(flags)
			if err := flags.Parse(strings.Fields(c.args)); err != nil {
				t.Fatal(err)
			}
			if target.local() != c.local {
				t.Errorf("local: got %v", target.local())
			}
			err := target.ready()
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) {
				t.Fatalf("got %v, want %q", err, c.err)
			}
			if notice.Len() > 0 {
				t.Errorf("printed %q", notice.String())
			}
			if c.err == "" {
				return
			}
			// Each getter returns the same error.
			_, err1 := target.ToRESTConfig()
			_, err2 := target.ToDiscoveryClient()
			_, err3 := target.ToRESTMapper()
			raw := target.ToRawKubeConfigLoader()
			_, _, err4 := raw.Namespace()
			_, err5 := raw.ClientConfig()
			_, err6 := raw.RawConfig()
			for i, e := range []error{err1, err2, err3, err4, err5, err6} {
				if !errors.Is(e, err) {
					t.Errorf("way %d: %v", i+1, e)
				}
			}
			if raw.ConfigAccess() == nil {
				t.Error("no access to config files")
			}
		})
	}
}

// TestRequestsAreNotDelayed checks that a client of the local daemon sends more requests at once than client-go would.
func TestRequestsAreNotDelayed(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	c, err := rest.UnversionedRESTClientFor(toDaemon(&rest.Config{Host: "http://localhost",
		ContentConfig: rest.ContentConfig{GroupVersion: &schema.GroupVersion{}, NegotiatedSerializer: scheme.Codecs}}, socket))
	if err != nil {
		t.Fatal(err)
	}
	limiter := c.GetRateLimiter()
	for range 1000 {
		if limiter != nil && !limiter.TryAccept() {
			t.Fatal("the rate of requests is limited")
		}
	}
	if got, err := c.Get().AbsPath("/readyz").DoRaw(t.Context()); err != nil || string(got) != "ok" {
		t.Errorf("over the socket: %q, %v", got, err)
	}
}

func TestExitError(t *testing.T) {
	inner := errors.New("no")
	e := &ExitError{Code: 3, Err: inner}
	if e.Error() != "no" || !errors.Is(fmt.Errorf("x: %w", e), inner) {
		t.Errorf("got %v", e)
	}
	if got := (&ExitError{Code: 3}).Error(); got != "exit status 3" {
		t.Errorf("got %q", got)
	}
}

func TestRun(t *testing.T) {
	t.Setenv("MINIKCTL_HOME", t.TempDir())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for _, c := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"", 0, "minikctl runs Kubernetes on this machine", ""},
		{"status", 0, "No clusters. Start one with: minikctl up -d\n", ""},
		{"down", 0, `minikctl: there is no cluster "minikctl"`, ""},
		{"down --name two --purge", 0, `minikctl: there is no cluster "two"`, ""},
		{"down --name .. --purge", 1, "", `error: --name: ".." is not a name`},
		{"nonsense", 1, "", `error: unknown command "nonsense" for "minikctl"`},
		{"up --only etcd", 1, "", `error: --only: "etcd" is not one of`},
		{"status x", 1, "", "error: unexpected arguments: [x]\nSee 'minikctl status -h' for help and examples\n"},
		{"down two", 1, "", "error: unexpected arguments: [two]; the name of a cluster is a flag: --name two\nSee 'minikctl down -h'"},
		{"up two", 1, "", "error: unexpected arguments: [two]; the name of a cluster is a flag: --name two\nSee 'minikctl up -h'"},
		{"service url", 1, "", "error: the NAME of a Service is needed\nSee 'minikctl service url -h'"},
		{"service url a b c", 1, "", "error: unexpected arguments: [b c]\n"},
		{"schedule compare", 1, "", "error: a CONFIG is needed\nSee 'minikctl schedule compare -h'"},
		{"scheduler validate", 1, "", "error: a FILE is needed\nSee 'minikctl scheduler validate -h'"},
		{"clock nope", 1, "", `error: unknown command "nope" for "minikctl clock"`},
		{"scheduler nope", 1, "", `error: unknown command "nope" for "minikctl scheduler"`},
		{"service nope", 1, "", `error: unknown command "nope" for "minikctl service"`},
		{"store nope", 1, "", `error: unknown command "nope" for "minikctl store"`},
		{"store", 0, "Check, back up and restore the store", ""},
		{"why node/x", 1, "", "error: node/x is not a pod"},
		{"why", 1, "", "error: one object is needed, as TYPE/NAME, got 0 arguments\nSee 'minikctl why -h' for help and examples\n"},
		{"dev -f x --image y -- true", 1, "", "error: --image: \"y\" is not NAME=VALUE\nSee 'minikctl dev --help' for usage.\n"},
		{"trace pod/x -o xml", 1, "", "error: --output: \"xml\" is not one of [json yaml]\nSee 'minikctl trace --help' for usage.\n"},
		{"clock show -o xml", 1, "", `error: --output: "xml" is not one of [json yaml]`},
		{"trace a b c", 1, "", "error: one object is needed, as TYPE/NAME, got 3 arguments\nSee 'minikctl trace -h'"},
		{"up --nodse 3", 1, "", "error: unknown flag: --nodse\nSee 'minikctl up --help' for usage.\n"},
		{"rollout status --foo", 1, "", "error: unknown flag: --foo\nSee 'minikctl rollout status --help' for usage.\n"},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, out, errOut := run(t, append([]string{"minikctl"}, strings.Fields(c.args)...)...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errOut, c.err) || (c.err == "") != (errOut == "") {
				t.Errorf("got %d, %q, %q; want %d, %q, %q", code, out, errOut, c.code, c.out, c.err)
			}
		})
	}
}

// TestUpArgs checks the flags that up -d passes to the daemon.
func TestUpArgs(t *testing.T) {
	root := rootOf("minikctl", "up")
	cmd, _, err := root.Find([]string{"up"})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(strings.Fields("-d --name up --nodes 2 --only apiserver,kubelet --config up --kubeconfig k")); err != nil {
		t.Fatal(err)
	}
	got := upArgs(cmd)
	slices.Sort(got)
	if want := strings.Fields("--config=up --kubeconfig=k --nodes=2 --only=apiserver,kubelet"); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCommandsThatCreateNoCluster checks that no cluster is created by commands that need none, by a mistyped name, and by a command
// after a failed up.
func TestCommandsThatCreateNoCluster(t *testing.T) {
	for _, c := range []struct {
		name, before, args string
		code               int
		out, err           string
	}{
		{"version", "", "version", 0, `Server Version: none, no daemon "minikctl" runs (start it with: minikctl up -d)`, ""},
		{"version of a mistyped name", "", "version --name typo", 0, `Server Version: none, no daemon "typo" runs (start it with: minikctl up -d --name typo)`, ""},
		{"help", "", "help get", 0, "Usage:", ""},
		{"help of a verb", "", "get --help", 0, "\n  minikctl get pods -o wide\n", ""},
		{"help of a verb of minikctl alone", "", "schedule --help", 0, "\n  kubectl get nodes,pods,pvc,pv,storageclasses -A -o yaml > snapshot.yaml\n", ""},
		{"completion", "", "completion bash", 0, "bash completion", ""},
		{"completion of names", "", "__complete get pods x", 0, ":4", "ShellCompDirective"},
		{"mistyped name", "", "why pod/x --name typo", 1, "", `error: there is no cluster "typo"; create it with: minikctl up -d --name typo`},
		{"after a failed up", "up -d --only etcd", "why pod/x", 1, "", `error: no daemon "minikctl" runs, and the last up failed: --only: "etcd" is not one of`},
		{"after a failed up of a name", "up -d --only etcd --name two", "why pod/x --name two", 1, "", `error: no daemon "two" runs, and the last up failed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmp := t.TempDir()
			dir, user := filepath.Join(tmp, "home"), filepath.Join(tmp, "user")
			t.Setenv("MINIKCTL_HOME", dir)
			t.Setenv("XDG_RUNTIME_DIR", user)
			if err := os.Mkdir(user, 0o700); err != nil {
				t.Fatal(err)
			}
			if c.before != "" {
				if code, out, _ := run(t, append([]string{"minikctl"}, strings.Fields(c.before)...)...); code != 1 {
					t.Fatalf("%s: got %d, %s", c.before, code, out)
				}
				if _, err := os.Lstat(dir); err == nil {
					t.Errorf("%s: %s is left", c.before, dir)
				}
			}
			code, out, errOut := run(t, append([]string{"minikctl"}, strings.Fields(c.args)...)...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errOut, c.err) || c.err == "" && errOut != "" {
				t.Errorf("got %d, %q, %q; want %d, %q, %q", code, out, errOut, c.code, c.out, c.err)
			}
			if all, err := daemon.All(); err != nil || len(all) != 0 {
				t.Errorf("there are clusters: %v, %v", all, err)
			}
			for _, name := range []string{"minikctl", "two"} {
				if _, _, errOut := run(t, "minikctl", "down", "--purge", "--name", name); errOut != "" {
					t.Errorf("down --purge: %s", errOut)
				}
			}
			for _, path := range []string{dir, filepath.Join(user, "minikctl")} {
				if _, err := os.Lstat(path); err == nil {
					t.Errorf("%s is left", path)
				}
			}
		})
	}
}

// TestMistypedFlagsOfUpLeaveNothing checks that an up whose flags are wrong creates no files.
func TestMistypedFlagsOfUpLeaveNothing(t *testing.T) {
	tmp := t.TempDir()
	for _, name := range []string{"user", "tmp"} {
		if err := os.Mkdir(filepath.Join(tmp, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("MINIKCTL_HOME", filepath.Join(tmp, "home"))
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(tmp, "user"))
	t.Setenv("TMPDIR", filepath.Join(tmp, "tmp"))
	for args, want := range map[string]string{
		"up -d --nodse 3":               "error: unknown flag: --nodse\nSee 'minikctl up --help' for usage.\n",
		"up --nodse=3 --name two":       "unknown flag: --nodse",
		"up -d --nodes":                 "flag needs an argument: --nodes",
		"up -d --allocate-node-cidrs=x": "--allocate-node-cidrs",
	} {
		if code, _, errOut := run(t, append([]string{"minikctl"}, strings.Fields(args)...)...); code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%s: got %d, %q", args, code, errOut)
		}
	}
	err := filepath.WalkDir(tmp, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != tmp && path != filepath.Join(tmp, "user") && path != filepath.Join(tmp, "tmp") {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestBadValuesOfFlags checks the errors of values in minikctl's own verbs, and that those of kubectl's verbs are kubectl's.
func TestBadValuesOfFlags(t *testing.T) {
	t.Setenv("MINIKCTL_HOME", t.TempDir())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	for args, want := range map[string]string{
		"up --nodes x":                        `error: --nodes: "x" is not a whole number`,
		"up --nodes 99999999999999999999":     `error: --nodes: "99999999999999999999" is not in the range of int`,
		"up --nodes 9999999999":               `error: --nodes: "9999999999" is not a number from 0 to 2147483647`,
		"up --seed -1":                        `error: --seed: "-1" is not a whole number from 0`,
		"up --node-eviction-rate x":           `error: --node-eviction-rate: "x" is not a number`,
		"up -d=maybe":                         `error: --detach: "maybe" is not true or false`,
		"up --timeout 1":                      `error: --timeout: "1" is not a duration such as 90m`,
		"why p --attempt one":                 `error: --attempt: "one" is not a whole number`,
		"schedule compare a -f b --seeds 2.5": `error: --seeds: "2.5" is not a whole number`,
		"get pods --chunk-size x":             `error: invalid argument "x" for "--chunk-size" flag: strconv.ParseInt: parsing "x": invalid syntax`,
	} {
		code, _, errOut := run(t, append([]string{"minikctl"}, strings.Fields(args)...)...)
		if line, _, _ := strings.Cut(errOut, "\n"); code != 1 || line != want {
			t.Errorf("%s: got %d, %s, want %s", args, code, line, want)
		}
	}
	if _, _, errOut := run(t, "minikctl", "down", "--purge"); errOut != "" { // the record of the failed up
		t.Errorf("down --purge: %s", errOut)
	}
}

// TestVerbsThatStartTheDaemon compares the verbs with the list that decides which of them start a daemon.
func TestVerbsThatStartTheDaemon(t *testing.T) {
	without := []string{"up", "down", "status", "store", "scheduler", "schedule", "kustomize", "config", "completion", "options", "plugin", "version"}
	for _, v := range verbs {
		if autostart.NeedsCluster(v.name) == slices.Contains(without, v.name) {
			t.Errorf("%s: autostart.Needs returns %v", v.name, autostart.NeedsCluster(v.name))
		}
	}
}

// TestHelpShowsOwnFlags checks that the help of minikctl's verbs lists their own flags and refers to options for the global ones.
func TestHelpShowsOwnFlags(t *testing.T) {
	t.Setenv("MINIKCTL_HOME", t.TempDir())
	for verb, own := range map[string]string{"up": "--detach", "down": "--purge", "apply": "--wait", "run": "--replicas", "trace": "--stages", "why": "--all", "version": "--client"} {
		_, out, _ := run(t, "minikctl", verb, "--help")
		if !strings.Contains(out, own) || strings.Contains(out, "--as-group") || !strings.Contains(out, `Use "minikctl options" for the global flags`) {
			t.Errorf("help of %s:\n%s", verb, out)
		}
	}
	_, out, _ := run(t, "minikctl", "up", "--help")
	if detach, audit := strings.Index(out, "--detach"), strings.Index(out, "--audit-log"); detach > audit {
		t.Errorf("help of up begins with rare flags:\n%s", out)
	}
}

// TestCompletionOfNames checks that trace and why complete the names of objects, as get does.
func TestCompletionOfNames(t *testing.T) {
	root := rootOf("minikctl")
	for _, verb := range []string{"trace", "why", "get"} {
		cmd, _, err := root.Find([]string{verb})
		if err != nil || cmd.ValidArgsFunction == nil {
			t.Errorf("%s completes no names: %v", verb, err)
		}
	}
}

// TestCompletionOfFlags checks that the values of flags are completed, and those of kubeconfigs and clusters without a daemon.
func TestCompletionOfFlags(t *testing.T) {
	home := t.TempDir()
	t.Setenv("MINIKCTL_HOME", home)
	lock := filepath.Join(home, "two", autostart.LockFile)
	if err := os.MkdirAll(filepath.Dir(lock), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(home, "config")
	t.Setenv("KUBECONFIG", kubeconfig)
	if err := os.WriteFile(kubeconfig, []byte(`{"contexts": [{"name": "prod"}, {"name": "dev"}], "clusters": [{"name": "c"}], "users": [{"name": "u"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]string{
		"get pods --context |": "dev\nprod\n", "get pods --context p|": "prod\n", "get --cluster |": "c\n", "get --user |": "u\n", "down --name |": "two\n", "get -n |": "",
		"why -o |": "wide\nheatmap\nsvg\njson\nyaml\n", "trace -o |": "json\nyaml\n", "up --log-level |": "debug\ninfo\nwarn\nerror\n",
	} {
		args := append([]string{"minikctl", "__complete"}, strings.Split(strings.TrimSuffix(flags, "|"), " ")...)
		if _, out, _ := run(t, args...); out != want+":4\n" {
			t.Errorf("%s: got %q", flags, out)
		}
	}
}

// TestLogsOfDaemon checks that logs --daemon prints the daemon's log, also after the daemon has ended.
func TestLogsOfDaemon(t *testing.T) {
	t.Setenv("MINIKCTL_HOME", t.TempDir())
	if code, _, errOut := run(t, "minikctl", "logs", "--daemon"); code != 1 || !strings.Contains(errOut, `cluster "minikctl" has no log`) {
		t.Errorf("without a log: %d, %s", code, errOut)
	}
	log := daemon.PathsOf("two").Log
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(log, []byte("level=INFO msg=ready\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := run(t, "minikctl", "logs", "--daemon", "--name", "two"); code != 0 || out != "level=INFO msg=ready\n" {
		t.Errorf("got %d, %q, %q", code, out, errOut)
	}
	if code, _, errOut := run(t, "minikctl", "logs", "--daemon", "web"); code != 1 || !strings.Contains(errOut, "takes no pod") {
		t.Errorf("with a pod: %d, %s", code, errOut)
	}
}

// TestStatusShowsFailedUp checks that status shows a failed up.
func TestStatusShowsFailedUp(t *testing.T) {
	t.Setenv("MINIKCTL_HOME", t.TempDir())
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	lock := filepath.Join(daemon.PathsOf("two").Data, autostart.LockFile)
	if err := os.MkdirAll(filepath.Dir(lock), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, _ := run(t, "minikctl", "up", "--name", "two", "--only", "etcd"); code != 1 {
		t.Fatalf("up: %d", code)
	}
	if _, out, _ := run(t, "minikctl", "status"); !strings.Contains(out, "stopped, last up failed") {
		t.Errorf("status:\n%s", out)
	}
}
