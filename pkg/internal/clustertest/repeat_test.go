package clustertest

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/client-go/kubernetes/scheme"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/apiserver"
	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/cli"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/internal/virtual"
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/store"
)

var (
	repeatScript = flag.String("repeat.script", "", "the only script that TestRepeat runs")
	repeatAll    = flag.Bool("repeat.all", false, "have TestRepeat also run the scripts that take more than a second")
)

// longScripts are the scripts of controllers that TestRepeat leaves out without -repeat.all: each takes more than a second of a processor.
var longScripts = []string{"cronjob", "deployment", "garbage", "replicaset", "run", "statefulset"}

// skips reports whether TestRepeat leaves a script out.
func skips(name string) bool {
	switch {
	case *repeatScript != "":
		return name != *repeatScript
	case name == "disruption":
		return true // kubectl drain makes several requests at the same time
	}
	return !*repeatAll && slices.Contains(longScripts, name)
}

// TestRepeat runs scripts twice, each time on a new cluster with the same seed and a manual clock, and compares what the stores have
// recorded: every version of every object, in order. The keys of the cluster's authority, which are random, are the same in both runs.
func TestRepeat(t *testing.T) {
	t.Parallel()
	files := append(scriptsOf(t, controllerScripts), scriptsOf(t, "testdata/repeat/*.txt")...)
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a quarter of its time otherwise
	keys, err := pki.Open(t.TempDir(), clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	r := repeated{keys: keys, listen: "127.0.0.1:0"}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		if skips(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			r.file = file
			var runs [2][]store.Event
			for i := range runs {
				t.Run(strconv.Itoa(i+1), func(t *testing.T) { runs[i] = r.run(t) })
			}
			compareRuns(t, runs[0], runs[1])
		})
	}
}

// repeated is a script that runs several times.
type repeated struct {
	keys   *pki.PKI
	listen string // the address of the API server, which is part of objects
	file   string
}

// run runs the script on a new cluster and returns all changes of its store.
func (r *repeated) run(t *testing.T) []store.Event {
	archive, err := txtar.ParseFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	s := &scriptRun{TB: t, dir: t.TempDir()}
	for _, f := range archive.Files {
		if err := os.WriteFile(filepath.Join(s.dir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range strings.Split(string(archive.Comment), "\n") {
		if strings.HasPrefix(line, "[!manual]") {
			continue
		}
		words := strings.Fields(strings.TrimPrefix(line, "[manual] "))
		if len(words) > 0 && words[0] == "cluster" {
			s.start(r, words[1:])
			continue
		}
		s.line(strings.TrimPrefix(line, "[manual] "))
	}
	s.cluster.Advance(0)
	return history(t, s.store)
}

// token matches a token up to its signature.
var token = regexp.MustCompile(`(eyJ[\w-]+\.[\w-]+)\.[\w-]+`)

// history returns all changes of a store.
func history(t *testing.T, s store.Store) []store.Event {
	t.Helper()
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []store.Event
	for batch, err := range s.Watch(t.Context(), "", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range batch.Events {
			ev.Value = token.ReplaceAll(ev.Value, []byte("$1")) // a signature is random
			out = append(out, ev)
		}
		if batch.Revision >= head {
			break
		}
	}
	return out
}

// scriptRun is one run of a script of TestControllers. What the script checks is not checked again.
type scriptRun struct {
	testing.TB
	dir     string
	cluster *virtual.Cluster
	store   store.Store
	output  []byte // of the last command
}

func (s *scriptRun) start(r *repeated, args []string) {
	s.Helper()
	nodes := 0
	for i, arg := range args {
		if arg == "--sim-nodes" {
			nodes, _ = strconv.Atoi(args[i+1])
		}
	}
	cfg := virtual.Config{Stages: true, Server: func(c *apiserver.Config) {
		c.PKI, c.Listen, s.store = r.keys, r.listen, c.Store
	}}
	for i := range nodes {
		cfg.Nodes = append(cfg.Nodes, fmt.Sprintf("sim-%d", i+1))
	}
	s.cluster = virtual.Start(s.TB, cfg)
	r.listen = strings.TrimPrefix(s.cluster.Env.URL, "https://")
	admin, err := r.keys.Admin()
	if err != nil {
		s.Fatal(err)
	}
	config := pki.Kubeconfig(pki.Access{Server: s.cluster.Env.URL, CA: r.keys.CA(), Cluster: "c", Context: "c", User: "admin", Client: admin})
	if err := pki.WriteKubeconfig(s.path("kubeconfig"), config); err != nil {
		s.Fatal(err)
	}
	program, err := exec.LookPath("minikctl")
	if err != nil {
		s.Fatal(err)
	}
	wrapper := fmt.Sprintf("#!/bin/sh\nexec %s --kubeconfig %s \"$@\"\n", program, s.path("kubeconfig"))
	if err := os.WriteFile(s.path("minikctl"), []byte(wrapper), 0o700); err != nil {
		s.Fatal(err)
	}
}

func (s *scriptRun) path(name string) string { return filepath.Join(s.dir, name) }

// line runs a line of the script.
func (s *scriptRun) line(line string) {
	s.Helper()
	words := splitLine(line)
	fails := len(words) > 0 && words[0] == "!"
	if fails {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	switch words[0] {
	case "check", "events":
		s.cluster.Advance(0)
	case "advance":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.Fatal(err)
		}
		s.cluster.Advance(d)
	case "exec":
		s.exec(words[1:], fails)
	case "cp":
		if err := os.WriteFile(s.path(words[2]), s.output, 0o600); err != nil {
			s.Fatal(err)
		}
	case "stdout", "stderr", "cmp", "grep", "same", "skip":
	default:
		s.Fatalf("unknown command %q", line)
	}
}

// exec runs minikctl in this process, and other programs as they are.
func (s *scriptRun) exec(words []string, fails bool) {
	s.Helper()
	var out, errOut bytes.Buffer
	var failed bool
	if words[0] == "minikctl" {
		args := []string{"minikctl", "--kubeconfig", s.path("kubeconfig")}
		for _, arg := range words[1:] {
			if _, err := os.Stat(s.path(arg)); err == nil && arg != "" {
				arg = s.path(arg)
			}
			args = append(args, arg)
		}
		if words[1] == "apply" {
			args = append(args, "--validate=false") // saves the client a fetch of the schemas
		}
		failed = runVerb(s.Context(), args, &out, &errOut) != 0
	} else {
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, &out, &errOut
		cmd.Env = append(os.Environ(), "PATH="+s.dir+":"+os.Getenv("PATH"))
		failed = cmd.Run() != nil
	}
	if failed != fails {
		s.Fatalf("%v: failed is %v\n%s%s", words, failed, &out, &errOut)
	}
	s.output = out.Bytes()
}

// runVerb runs minikctl in this process. kubectl's verbs end the process after an error, which becomes a panic here.
func runVerb(ctx context.Context, args []string, out, errOut *bytes.Buffer) (code int) {
	type exit struct{ code int }
	cmdutil.BehaviorOnFatal(func(msg string, code int) {
		fmt.Fprintln(errOut, msg)
		panic(exit{code})
	})
	defer cmdutil.DefaultBehaviorOnFatal()
	defer func() {
		if e, ok := recover().(exit); ok {
			code = e.code
		}
	}()
	return cli.Run(ctx, schedplugins.Registry, args, strings.NewReader(""), out, errOut)
}

// splitLine splits a line of a script into words, which single quotes keep together.
func splitLine(line string) []string {
	var words []string
	word, in, quoted := "", false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\'' && i+1 < len(line) && line[i+1] == '\'':
			word += "'"
			i++
		case c == '\'':
			quoted, in = !quoted, true
		case !quoted && c == '#' && !in:
			return words
		case !quoted && (c == ' ' || c == '\t'):
			if in {
				words = append(words, word)
			}
			word, in = "", false
		default:
			word, in = word+string(c), true
		}
	}
	if in {
		words = append(words, word)
	}
	return words
}

// compareRuns fails the test at the first change that differs.
func compareRuns(t *testing.T, a, b []store.Event) {
	t.Helper()
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a), i >= len(b):
			longer := a
			if i >= len(a) {
				longer = b
			}
			t.Fatalf("one run has %d changes, the other %d; the next one is\n%s", len(a), len(b), describeChange(longer[i]))
		case a[i].Key != b[i].Key || a[i].Revision != b[i].Revision || !bytes.Equal(a[i].Value, b[i].Value):
			before := ""
			for _, ev := range a[max(0, i-8):i] {
				before += fmt.Sprintf("%d %s\n", ev.Revision, ev.Key)
			}
			t.Fatalf("change %d of %d and %d differs; before it:\n%s%s", i, len(a), len(b), before, differentLines(describeChange(a[i]), describeChange(b[i])))
		}
	}
	t.Logf("%d changes are equal", len(a))
}

// differentLines returns the first line and those that differ.
func differentLines(a, b string) string {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	out := "first run:  " + left[0] + "\nsecond run: " + right[0] + "\n"
	if left[0] != right[0] {
		return out
	}
	for _, line := range left[1:] {
		if !slices.Contains(right, line) {
			out += "- " + line + "\n"
		}
	}
	for _, line := range right[1:] {
		if !slices.Contains(left, line) {
			out += "+ " + line + "\n"
		}
	}
	return out
}

// describeChange returns a line with the key and the revision of a change, and the object as JSON.
func describeChange(ev store.Event) string {
	out := fmt.Sprintf("%d %s", ev.Revision, ev.Key)
	if ev.Value == nil {
		return out + " deleted"
	}
	text := ev.Value
	if obj, _, err := scheme.Codecs.UniversalDeserializer().Decode(ev.Value, nil, nil); err == nil {
		text, _ = json.MarshalIndent(obj, "", "  ")
	}
	return out + "\n" + string(text)
}
