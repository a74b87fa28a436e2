package schedplugins

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/schedplugins/internal/guest"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// section returns a section of a WebAssembly module.
func section(id byte, content ...byte) []byte {
	return append([]byte{id, byte(len(content))}, content...)
}

// results are the result types of the functions of plugins that are not i32.
var results = map[string][]byte{"permit": {0x7e}, "unreserve": {}, "postbind": {}}

// module returns a WebAssembly module with a memory of one page and a function without parameters. It exports the function under the names,
// which are separated by commas and have the same type.
func module(names string, code ...byte) []byte {
	list := strings.Split(names, ",")
	result, ok := results[list[0]]
	if !ok {
		result = []byte{0x7f} // i32
	}
	exports := append([]byte{byte(len(list) + 1), 6}, "memory\x02\x00"...)
	for _, name := range list {
		exports = append(append(exports, byte(len(name))), name+"\x00\x00"...)
	}
	return binary(
		section(1, append([]byte{1, 0x60, 0, byte(len(result))}, result...)...),
		section(3, 1, 0),
		section(5, 1, 0, 1),
		section(7, exports...),
		section(10, append([]byte{1}, body(code...)...)...),
	)
}

// calling returns a module whose filter calls an imported function with a text and accepts the node.
func calling(of, name, text string) []byte {
	imported := append([]byte{1, byte(len(of))}, of...)
	imported = append(append(append(imported, byte(len(name))), name...), 0, 1)
	return binary(
		section(1, 2, 0x60, 0, 1, 0x7f, 0x60, 2, 0x7f, 0x7f, 0), // () -> i32, (i32, i32) -> ()
		section(2, imported...),
		section(3, 1, 0),
		section(5, 1, 0, 1),
		section(7, append([]byte{2, 6}, "memory\x02\x00\x06filter\x00\x01"...)...),
		section(10, append([]byte{1}, body(0x41, 0, 0x41, byte(len(text)), 0x10, 0, 0x41, 0)...)...), // i32.const 0, i32.const len, call 0, i32.const 0
		section(11, append([]byte{1, 0, 0x41, 0, 0x0b, byte(len(text))}, text...)...),
	)
}

// body returns the code of a function with its size.
func body(code ...byte) []byte {
	code = append(append([]byte{0}, code...), 0x0b) // no local variables
	return append([]byte{byte(len(code))}, code...)
}

func binary(sections ...[]byte) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), slices.Concat(sections...)...)
}

// The code of functions.
var (
	accept = []byte{0x41, 0}                         // i32.const 0
	reject = []byte{0x41, 2}                         // i32.const 2: Unschedulable
	traps  = []byte{0x00}                            // unreachable
	loops  = []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x00} // loop br 0 end
	// i32.const 512 (pages: 32 MiB), memory.grow, i32.const -1, i32.eq, if unreachable end, i32.const 0
	leaks = []byte{0x41, 0x80, 0x04, 0x40, 0, 0x41, 0x7f, 0x46, 0x04, 0x40, 0x00, 0x0b, 0x41, 0}
	// loop i32.const 2048 (pages: 128 MiB), memory.grow, i32.const -1, i32.eq, if unreachable end, br 0 end
	grows = []byte{0x03, 0x40, 0x41, 0x80, 0x10, 0x40, 0, 0x41, 0x7f, 0x46, 0x04, 0x40, 0x00, 0x0b, 0x0c, 0, 0x0b, 0x00}
)

// patience bounds calls of plugins where a test must not depend on the machine's speed: a module in Go takes long to compile under the race detector.
var patience = scheduler.PluginTimeouts{Cycle: time.Hour, Binding: time.Hour}

// patient returns the registry with the same time for the calls of modules.
func patient() scheduler.Registry {
	out := maps.Clone(Registry)
	out["Wasm/*"] = func(ctx context.Context, args runtime.Object, h framework.Handle) (framework.Plugin, error) {
		return newWasmWithin(ctx, args, h, guest.Limits{Load: time.Hour, Call: time.Hour})
	}
	return out
}

// wasmFile writes a module to a file.
func wasmFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin.wasm")
	write(t, path, string(content))
	return path
}

func wasmConfig(path, guestConfig string) string {
	return fmt.Sprintf(`profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Wasm/test, weight: 2}]}}
  pluginConfig: [{name: Wasm/test, args: {guestURL: "file://%s", guestConfig: %q}}]
`, path, guestConfig)
}

// TestWasmBounds checks what modules do to a pod that accept or reject it, trap, never end, or take all memory. The next pods are not held up.
func TestWasmBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		code []byte
		want []string // in the message; none: the pod is scheduled
	}{
		{"accepts", accept, nil},
		{"rejects", reject, []string{"0/1 nodes are available: 1 ."}},
		{"traps", traps, []string{`running Filter plugin "Wasm/test": wasm: filter error: wasm error: unreachable`}},
		{"loops", loops, []string{`running Filter plugin "Wasm/test": wasm: filter error: the module did not return in time (1s)`,
			`running Filter plugin "Wasm/test": wasm: the module is suspended: an earlier call has exceeded its time-out`}},
		{"grows", grows, []string{`running Filter plugin "Wasm/test": wasm: filter error: wasm error: unreachable`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := config(t, wasmConfig(wasmFile(t, module("filter", c.code...)), ""))
			registry := patient()
			if c.name == "loops" {
				registry = Registry
			}
			box, err := scheduler.NewSandbox(t.Context(), scheduler.Simulation{Registry: registry, Timeouts: patience, Config: conf, Nodes: []*corev1.Node{someNode("a")}}, 1)
			if err != nil {
				t.Fatal(err)
			}
			defer box.Close(t.Context())
			for i := range max(1, len(c.want)) {
				got, err := box.Schedule(t.Context(), somePod("p", ""))
				if err != nil {
					t.Fatal(err)
				}
				if (got.Node != "") != (len(c.want) == 0) || got.Node == "" && !strings.Contains(got.Message, c.want[i]) {
					t.Errorf("node %q, message %s, want %s", got.Node, got.Message, c.want)
				}
			}
		})
	}
}

// TestWasmErrors checks what of modules and arguments is refused, with the path of the field.
func TestWasmErrors(t *testing.T) {
	for _, c := range []struct {
		name, url, want string
	}{
		{"no module", "", "args.guestURL: Required value"},
		{"another scheme", "http://example.com/x.wasm", "must be a file:// URL with an absolute path"},
		{"relative path", "file://x.wasm", "must be a file:// URL with an absolute path"},
		{"missing file", "file:///nope.wasm", "open /nope.wasm: no such file or directory"},
		{"no WebAssembly", "file://" + wasmFile(t, []byte("hello")), "wasm: error compiling guest"},
		{"no function of plugins", "file://" + wasmFile(t, module("nothing", accept...)), "wasm: guest does not export any plugin functions"},
		{"wrong signature", "file://" + wasmFile(t, module("score", accept...)), "wasm: guest exports the wrong signature for func[score]. should be () -> (i64)"},
		{"start that never ends", "file://" + wasmFile(t, module("filter,_initialize", loops...)), "wasm: instantiate error: the module did not return in time (5s)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := config(t, fmt.Sprintf("profiles: [{pluginConfig: [{name: Wasm/x, args: {guestURL: %q}}]}]", c.url))
			_, err := scheduler.Inspect(t.Context(), Registry, conf)
			if err == nil || !strings.Contains(err.Error(), "profiles[0].pluginConfig[0].args.guestURL: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestWasmSeverity: only the severities of the ABI are accepted.
func TestWasmSeverity(t *testing.T) {
	url := "file://" + wasmFile(t, module("filter", accept...))
	for severity, valid := range map[int]bool{-1: false, 0: true, 3: true, 4: false} {
		conf := config(t, fmt.Sprintf("profiles: [{pluginConfig: [{name: Wasm/x, args: {guestURL: %q, logSeverity: %d}}]}]", url, severity))
		_, err := scheduler.Inspect(t.Context(), Registry, conf)
		want := fmt.Sprintf("profiles[0].pluginConfig[0].args.logSeverity: Invalid value: %d: must be between 0 and 3, inclusive", severity)
		if valid && err != nil || !valid && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("logSeverity %d: %v", severity, err)
		}
	}
}

// buildModule builds a module in Go and returns its file.
func buildModule(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin.wasm")
	build := exec.Command("go", "build", "-buildmode=c-shared", "-o", path, ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestWasmExample builds the example in Go, and checks its filter, which reads its configuration and the node's labels, and its score.
func TestWasmExample(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector makes it compile a module in Go for half a minute of processor time, and it has one goroutine: TestWasmBinding calls such a module from several")
	}
	label := func(value string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Labels["disk"] = value
			n.Annotations = map[string]string{"large": strings.Repeat("x", 10_000)} // more than the module's first buffer
		}
	}
	nodes := []*corev1.Node{someNode("node-1", label("ssd")), someNode("node-2", label("ssd")), someNode("node-3", label("hdd"))}
	path := buildModule(t, "../../examples/wasm")
	got := simulate(t, wasmConfig(path, "disk=ssd"), nodes, nil, somePod("p", ""))
	if got.Node != "node-2" || len(got.Scores) != 2 {
		t.Fatalf("node %q, scores %v: %s", got.Node, got.Scores, got.Message)
	}
	for _, p := range got.Scores[0].Plugins {
		if p.Plugin == "Wasm/test" && (p.Raw != 2 || p.Score != 4) {
			t.Errorf("score %+v", p)
		}
	}
	if got, want := simulate(t, wasmConfig(path, "disk=tape"), nodes, nil, somePod("p", "")), "0/3 nodes are available: 3 node(s) without the label disk=tape."; !strings.HasPrefix(got.Message, want) {
		t.Errorf("got %s, want %s", got.Message, want)
	}
	conf := config(t, strings.Replace(wasmConfig(wasmFile(t, module("filter", accept...)), ""), "{multiPoint:", "{preScore: {enabled: [{name: Wasm/test}]}, multiPoint:", 1))
	if _, err := scheduler.Inspect(t.Context(), Registry, conf); err == nil || !strings.Contains(err.Error(), "the plugin has no extension point preScore") {
		t.Errorf("a point that the module lacks: %v", err)
	}
}

// TestWasmReload replaces the file of a module while the scheduler runs. One that cannot be loaded is refused, and the next one that can be is
// loaded.
func TestWasmReload(t *testing.T) {
	c := newCluster(t)
	c.node("n", "8")
	path := wasmFile(t, module("filter", reject...))
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	write(t, file, header+wasmConfig(path, ""))
	reloads := make(chan error, 1)
	c.start(func(cfg *scheduler.Config) {
		cfg.ConfigFile, cfg.Registry, cfg.Reloaded = file, patient(), func(err error) { reloads <- err }
	})
	c.pod("p", "1m")
	if d := c.decision("p", "Unschedulable"); len(d.Rejected) != 1 || d.Rejected[0].Plugin != "Wasm/test" {
		t.Errorf("decision: %+v", d)
	}
	replace := func(content string) error {
		write(t, path+".new", content)
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		return <-reloads
	}
	if err := replace("no module"); err == nil || !strings.Contains(err.Error(), "profiles[0].pluginConfig[0].args.guestURL: Invalid value") {
		t.Fatalf("the scheduler received %v", err)
	}
	if err := replace(string(module("filter", accept...))); err != nil {
		t.Fatal(err)
	}
	c.bound("p")
}
