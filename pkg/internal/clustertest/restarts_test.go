package clustertest

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/minikctl/minikctl/pkg/daemon"
)

var (
	restartSeed = flag.Uint64("restarts.seed", 1, "the seed of the restarts in TestScriptsWithRestarts")
	restartRate = flag.Float64("restarts.rate", 0.25, "how likely TestScriptsWithRestarts kills a component before a step")
	restartAll  = flag.Bool("restarts.all", false, "run all scripts of controllers in TestScriptsWithRestarts, not every fourth")
)

// TestScriptsWithRestarts runs the scripts of workloads and controllers, and before some steps kills the API server, the controllers, the
// scheduler or the kubelets and starts them again, each of which is a process. The store stays. On a manual clock, which other
// processes can't follow, it kills the whole daemon. The scripts use no other cluster than the one called minikctl.
func TestScriptsWithRestarts(t *testing.T) {
	t.Parallel()
	var workloads, control []string
	for _, file := range scriptsOf(t, "testdata/scenarios/*.txt") {
		workloads = append(workloads, withRestarts(t, file))
	}
	for i, file := range scriptsOf(t, controllerScripts) {
		if i%4 == 0 || *restartAll {
			control = append(control, withRestarts(t, file))
		}
	}
	parallel(t, "daemon", func(t *testing.T) { runFiles(t, control, "minikctl", manualSuite(checkAfterRestarts, checkNothing)) })
	parallel(t, "parts", func(t *testing.T) { runFiles(t, append(workloads, control...), "minikctl", partsSuite(checkNothing)) })
}

// withRestarts writes a copy of a script that starts its cluster with the command parts, and has the command restart before some steps.
func withRestarts(t *testing.T, file string) string {
	t.Helper()
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	archive.Comment = []byte(insertRestarts(string(archive.Comment), restartsOf(file), *restartRate))
	out := filepath.Join(t.TempDir(), filepath.Base(file))
	if err := os.WriteFile(out, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// restartsOf returns the source of the restarts in a script.
func restartsOf(file string) *rand.Rand {
	h := fnv.New64()
	h.Write([]byte(filepath.Base(file)))
	return rand.New(rand.NewPCG(*restartSeed, h.Sum64()))
}

// insertRestarts changes the lines of a script. What the first up prints is not checked: it is another daemon's. While kubectl watches in
// the background the API server is not killed: the watch would end, as kubectl's do. In scripts that read traces it is not killed either: the
// steps of the last quarter of a second are lost with it.
func insertRestarts(script string, rng *rand.Rand, rate float64) string {
	var out []string
	started, skip, watching := false, false, false
	traced := strings.Contains(script, "minikctl trace")
	for _, line := range strings.Split(script, "\n") {
		words := strings.Fields(line)
		step := len(words) > 0 && slices.Contains([]string{"exec", "!", "retry", "spread", "check", "events", "advance", "[manual]"}, words[0]) && !strings.HasPrefix(line, "! std")
		switch {
		case strings.HasPrefix(line, "cluster "):
			started = true
		case strings.HasPrefix(line, "exec minikctl up -d") && !started:
			started, skip = true, true
			line = "parts" + strings.TrimPrefix(line, "exec minikctl up -d")
		case step:
			skip = false
			if started && rng.Float64() < rate {
				n := rng.IntN(1000)
				if (watching || traced) && choosesServer(n) {
					n--
				}
				out = append(out, fmt.Sprintf("restart %d", n))
			}
			watching = watching || strings.HasSuffix(line, "&watch&")
		case line == "wait watch":
			watching = false
		case skip && strings.HasPrefix(line, "stdout"):
			continue
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// clientParts are the components that are clients of the API server.
var clientParts = []string{"controllers", "scheduler", "kubelet"}

// choosesServer reports whether a restart with this number kills the API server.
func choosesServer(n int) bool { return n%(len(clientParts)+1) == len(clientParts) }

// The script command "parts FLAGS…" starts the cluster minikctl as one process for the API server and one for each other component.
func parts(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(".parts"), []byte(strings.Join(args, "\n")), 0o600))
	startServer(ts, args...)
	for _, part := range clientParts {
		startPart(ts, part)
	}
}

// startServer starts the API server with flags that become settings of the cluster.
func startServer(ts *testscript.TestScript, args ...string) {
	if out, err := output(ts, append([]string{"minikctl", "up", "-d", "--only", "apiserver"}, args...)); err != nil {
		ts.Fatalf("start the API server: %v\n%s", err, out)
	}
}

func startPart(ts *testscript.TestScript, part string) {
	text, err := os.ReadFile(ts.MkAbs(".parts"))
	ts.Check(err)
	args := []string{"minikctl", "--name", part, "up", "-d", "--only", part, "--kubeconfig", pathsOf(ts, "minikctl").Kubeconfig}
	args = append(args, forPart(strings.Split(string(text), "\n"))...)
	if out, err := output(ts, args); err != nil {
		ts.Fatalf("start %s: %v\n%s", part, err, out)
	}
}

// forPart returns the flags of up that matter to other components than the API server.
func forPart(flags []string) []string {
	var out []string
	for i := 0; i < len(flags); i++ {
		name, _, joined := strings.Cut(flags[i], "=")
		value := i+1 < len(flags) && !joined
		if slices.Contains([]string{"--config", "--nodes", "--sim-nodes", "--scheduler-config", "--seed"}, name) {
			out = append(out, flags[i])
			if value {
				out = append(out, flags[i+1])
			}
		}
		if value {
			i++
		}
	}
	return out
}

func pathsOf(ts *testscript.TestScript, name string) daemon.Paths {
	return daemon.PathsIn(name, filepath.Join(ts.Getenv("HOME"), ".minikctl", name))
}

// The script command "restart N" kills the component that N chooses, or the daemon if it runs all, and starts it again.
func restart(ts *testscript.TestScript, _ bool, args []string) {
	var n int
	_, err := fmt.Sscan(args[0], &n)
	ts.Check(err)
	if !onParts(ts) {
		killDaemon(ts, "minikctl")
		if out, err := output(ts, []string{"minikctl", "up", "-d"}); err != nil {
			ts.Fatalf("start the daemon again: %v\n%s", err, out)
		}
		return
	}
	if choosesServer(n) {
		ts.Logf("kill the API server")
		killDaemon(ts, "minikctl")
		startServer(ts)
		return
	}
	part := clientParts[n%(len(clientParts)+1)]
	ts.Logf("kill %s", part)
	killDaemon(ts, part)
	startPart(ts, part)
}

// killDaemon kills a daemon with SIGKILL.
func killDaemon(ts *testscript.TestScript, name string) {
	paths := pathsOf(ts, name)
	s, err := daemon.ReadState(paths)
	ts.Check(err)
	ts.Check(syscall.Kill(s.PID, syscall.SIGKILL))
	if !within(time.Minute, func() bool { return !daemon.Alive(paths) }) {
		ts.Fatalf("the killed daemon %s is still there", name)
	}
}
