package clustertest

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	kubectl "k8s.io/kubectl/pkg/cmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/minikctl/minikctl/pkg/app" // container processes run this test binary
	"github.com/minikctl/minikctl/pkg/internal/confined"
)

var (
	update   = flag.Bool("update", false, "rewrite the scripts' expected files")
	kubectls = flag.Bool("kubectls", false, "go through the verbs with every kubectl of the machine")
)

func TestMain(m *testing.M) {
	if os.Getenv(confineVariable) != "" && filepath.Base(os.Args[0]) == "launcher" {
		fmt.Fprintln(os.Stderr, confined.Exec(os.Args[1:]))
		os.Exit(1)
	}
	if filepath.Base(os.Args[0]) == resolverProgram {
		if err := resolve(os.Args[1:]); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	waitsMoreThanItComputes()
	testscript.Main(withPrograms{m}, map[string]func(){
		"confined": func() { // a program without namespaces
			if path, err := exec.LookPath(os.Args[1]); err == nil {
				os.Args[1] = path
			}
			fmt.Fprintln(os.Stderr, confined.Exec(os.Args[1:]))
			os.Exit(1)
		},
		"minikctl": func() { os.Exit(app.Run(context.Background())) },
		"kubectl": func() {
			if err := kubectl.NewDefaultKubectlCommand().Execute(); err != nil {
				cmdutil.CheckErr(err)
			}
		},
	})
}

// programs is a directory for programs that several tests share.
var programs string

// withPrograms runs the tests with the directory programs.
type withPrograms struct{ *testing.M }

func (w withPrograms) Run() int {
	var err error
	if programs, err = os.MkdirTemp("", "programs"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs)
	return w.M.Run()
}

// waitsMoreThanItComputes has twice as many tests run at once as there are processors: scripts spend half of their time waiting for a
// cluster's timers. The flag -parallel is stronger.
func waitsMoreThanItComputes() {
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}

// TestScripts runs each script with minikctl.
func TestScripts(t *testing.T) {
	t.Parallel()
	run(t, "testdata/*.txt", "minikctl")
}

// TestScenarios runs the scripts that work with every client, with each client: minikctl, kubectl
// of the release of our libraries, and the machine's kubectl if there is one.
func TestScenarios(t *testing.T) {
	t.Parallel()
	clients := []string{"minikctl", "kubectl"}
	if path := machineKubectl(); path != "" {
		clients = append(clients, path)
	}
	for _, c := range clients {
		parallel(t, clientName(c), func(t *testing.T) { run(t, "testdata/scenarios/*.txt", c) })
	}
}

// TestStock runs kubectl's verbs with kubectl of the release of our libraries, and with -kubectls with every kubectl of the
// machine instead.
func TestStock(t *testing.T) {
	t.Parallel()
	clients := []string{"kubectl"}
	if *kubectls {
		if clients = machineKubectls(); len(clients) == 0 {
			t.Skip("there is no kubectl on this machine")
		}
	}
	for _, c := range clients {
		parallel(t, clientName(c), func(t *testing.T) { run(t, "testdata/stock/*.txt", c) })
	}
}

// parallel runs a subtest beside the others.
func parallel(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

func clientName(path string) string {
	return strings.Trim(strings.ReplaceAll(path, "/", "-"), "-")
}

// machineKubectl returns the kubectl in the PATH, or "".
func machineKubectl() string {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, "kubectl")
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 && !strings.Contains(dir, "testscript-main") {
			return path
		}
	}
	return ""
}

// machineKubectls returns the kubectl in the PATH and those of other releases beside it: kubectl.1.27.
func machineKubectls() []string {
	path := machineKubectl()
	if path == "" {
		return nil
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	others, _ := filepath.Glob(path + ".1.*")
	return append([]string{path}, others...)
}

func run(t *testing.T, pattern, client string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts match %s: %v", pattern, err)
	}
	runFiles(t, files, client, suite{})
}

// command is a command of scripts.
type command = func(*testscript.TestScript, bool, []string)

// suite is what scripts of a kind have in addition to what every script has.
type suite struct {
	commands map[string]command
	manual   bool // the condition [manual]
}

// runFiles runs scripts.
func runFiles(t *testing.T, files []string, client string, s suite) {
	commands := map[string]command{"retry": retry, "spread": spread, "same": same}
	maps.Copy(commands, s.commands)
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Files:         files,
		UpdateScripts: *update,
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			if err := os.Mkdir(home, 0o755); err != nil {
				return err
			}
			env.Setenv("HOME", home)
			env.Setenv("TMPDIR", os.TempDir()) // outside the script's directory: all daemons of the machine must use one directory to reserve address ranges
			env.Setenv("K", client)
			env.Setenv("ROOT", root)
			env.Defer(func() { leaveNothing(t, env) })
			return nil
		},
		Cmds: commands,
		Condition: func(name string) (bool, error) {
			switch name {
			case "mounts":
				return grantsMounts(), nil
			case "root":
				return os.Getuid() == 0, nil
			case "manual":
				return s.manual, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
	})
}

// leaveNothing takes the script's clusters down and checks that nothing of them is left.
func leaveNothing(t *testing.T, env *testscript.Env) {
	entries, err := os.ReadDir(filepath.Join(env.Getenv("HOME"), ".minikctl"))
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		log, _ := os.ReadFile(filepath.Join(env.Getenv("HOME"), ".minikctl", e.Name(), "daemon.log"))
		cmd := exec.Command("minikctl", "down", "--purge", "--name", e.Name())
		cmd.Env = env.Vars
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("down --purge %s: %v\n%s", e.Name(), err, out)
		}
		if t.Failed() {
			t.Logf("log of %s:\n%s", e.Name(), log)
		}
	}
	checkLeft(t, env.WorkDir)
}

// The script command "retry DURATION REGEXP PROGRAM ARGS…" runs a program repeatedly until its output matches, or with
// "!" until it no longer matches.
func retry(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: retry DURATION REGEXP PROGRAM ARGS…")
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	want, err := regexp.Compile("(?ms)" + args[1])
	ts.Check(err)
	var out []byte
	if !within(limit, func() bool {
		out, _ = output(ts, args[2:])
		return want.Match(out) != neg
	}) {
		ts.Fatalf("after %s the output of %v still does not match %q:\n%s", limit, args[2:], args[1], out)
	}
}

func output(ts *testscript.TestScript, args []string) ([]byte, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "HOME="+ts.Getenv("HOME"), "KUBECONFIG="+ts.Getenv("KUBECONFIG"), "PATH="+ts.Getenv("PATH"), "K="+ts.Getenv("K"))
	return cmd.CombinedOutput()
}

// The script command spread "2 2 1" SELECTOR checks the numbers of matching pods on the nodes, highest first.
func spread(ts *testscript.TestScript, neg bool, args []string) {
	out, err := output(ts, []string{ts.Getenv("K"), "get", "pods", "-l", args[1], "-o", `jsonpath={range .items[*]}{.spec.nodeName}{"\n"}{end}`})
	ts.Check(err)
	count := map[string]int{}
	for _, node := range strings.Fields(string(out)) {
		count[node]++
	}
	var counts []int
	for _, n := range count {
		counts = append(counts, n)
	}
	slices.SortFunc(counts, func(a, b int) int { return b - a })
	if got := strings.Trim(fmt.Sprint(counts), "[]"); (got == args[0]) == neg {
		ts.Fatalf("pods are spread %s (%v), want %s", got, count, args[0])
	}
}

// The script command "same FILE FILE" compares the sorted lines of two files.
func same(ts *testscript.TestScript, neg bool, args []string) {
	sorted := func(name string) string {
		lines := strings.Split(strings.TrimSpace(ts.ReadFile(name)), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	if a, b := sorted(args[0]), sorted(args[1]); (a == b) == neg {
		ts.Fatalf("%s and %s: equal is %v\n%s\n---\n%s", args[0], args[1], a == b, a, b)
	}
}
