package schedplugins

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// rustModule builds the module of examples/wasm-rust. It skips the test where the compiler, or its target, is not installed. As for cargo, RUSTC
// is the compiler.
func rustModule(t *testing.T) string {
	t.Helper()
	const target = "wasm32-unknown-unknown"
	rustc, err := exec.LookPath(cmp.Or(os.Getenv("RUSTC"), "rustc"))
	if err != nil {
		t.Skipf("no Rust compiler: %v", err)
	}
	dir, err := exec.Command(rustc, "--print", "target-libdir", "--target", target).Output()
	if err != nil {
		t.Skipf("%s does not know the target %s: %v", rustc, target, err)
	}
	if std, _ := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "libstd-*.rlib")); len(std) == 0 {
		t.Skipf("%s has no standard library for %s, which \"rustup target add\" or Debian's libstd-rust-dev-wasm32 installs", rustc, target)
	}
	path := filepath.Join(t.TempDir(), "team.wasm")
	build := exec.Command(rustc, "--edition", "2021", "--crate-name", "team", "--crate-type", "cdylib", "--target", target, "-C", "opt-level=s", "-C", "panic=abort", "-o", path, "src/lib.rs")
	build.Dir = "../../examples/wasm-rust"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestWasmRustExample builds the example in Rust, and checks its filter and its score, with and without a cache.
func TestWasmRustExample(t *testing.T) {
	path := rustModule(t)
	large := map[string]string{"large": strings.Repeat("x", 10_000)} // more than the module's first buffer
	nodes := []*corev1.Node{someNode("a", func(n *corev1.Node) { n.Labels["team"], n.Annotations = "red", large }), someNode("b"),
		someNode("c", func(n *corev1.Node) { n.Labels["team"], n.Annotations = "blue", large })}
	blue, green, none := somePod("blue", ""), somePod("green", ""), somePod("none", "")
	blue.Labels, green.Labels = map[string]string{"team": "blue"}, map[string]string{"team": "green"}
	for name, conf := range map[string]string{"no cache": wasmConfig(path, "team"),
		"a cache": strings.Replace(wasmConfig(path, "team"), "guestConfig:", "cache: {podFields: [metadata.labels]}, guestConfig:", 1)} {
		if got := simulate(t, conf, nodes, nil, blue); got.Node != "c" {
			t.Errorf("%s: blue is on %q: %s", name, got.Node, got.Message)
		}
		if got := simulate(t, conf, nodes, nil, none); got.Node != "b" || len(got.Scores) != 3 {
			t.Errorf("%s: the pod without the label is on %q, scores %v: %s", name, got.Node, got.Scores, got.Message)
		}
		if got, want := simulate(t, conf, nodes, nil, green), "0/3 nodes are available: 3 node(s) without the label team=green."; !strings.HasPrefix(got.Message, want) {
			t.Errorf("%s: got %s, want %s", name, got.Message, want)
		}
	}
}
