package schedplugins

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// withCache returns a configuration whose module's results depend on these fields of pods.
func withCache(path string, fields ...string) string {
	return strings.Replace(wasmConfig(path, ""), `guestConfig: ""`, fmt.Sprintf("cache: {podFields: [%s]}", strings.Join(fields, ", ")), 1)
}

// schedulePods schedules pods on nodes, one after the other. It returns the message of the first one without a node.
func schedulePods(t *testing.T, conf string, n int, pods ...*corev1.Pod) string {
	t.Helper()
	var nodes []*corev1.Node
	for i := range n {
		nodes = append(nodes, someNode(fmt.Sprintf("n%d", i)))
	}
	box, err := scheduler.NewSandbox(t.Context(), scheduler.Simulation{Registry: patient(), Timeouts: patience, Config: config(t, conf), Nodes: nodes}, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(t.Context())
	for _, p := range pods {
		got, err := box.Schedule(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if got.Node == "" {
			return got.Message
		}
	}
	return ""
}

func appPod(name, app string) *corev1.Pod {
	p := somePod(name, "")
	p.Labels = map[string]string{"app": app}
	return p
}

// TestWasmCache: the filter of a module with a cache is called for all nodes for the first of equal pods, and then for nodes that changed. The
// module traps after 60 calls.
func TestWasmCache(t *testing.T) {
	counts := []byte{0x41, 0, 0x41, 0, 0x28, 2, 0, 0x41, 1, 0x6a, 0x36, 2, 0, // memory[0] = memory[0] + 1
		0x41, 0, 0x28, 2, 0, 0x41, 60, 0x4a, 0x04, 0x40, 0x00, 0x0b, // if memory[0] > 60 { unreachable }
		0x41, 0}
	path := wasmFile(t, module("filter", counts...))
	var pods []*corev1.Pod
	for i := range 30 {
		pods = append(pods, appPod(fmt.Sprintf("p%d", i), "a"))
	}
	if got := schedulePods(t, withCache(path, "metadata.labels"), 10, pods...); got != "" {
		t.Errorf("with a cache: %s", got)
	}
	for name, conf := range map[string]string{"no cache": wasmConfig(path, ""), "a cache by name": withCache(path, "metadata.name")} {
		if got := schedulePods(t, conf, 10, pods...); !strings.Contains(got, "unreachable") {
			t.Errorf("with %s: %s", name, got)
		}
	}
}

// TestWasmLeak: a module that takes more memory in each call begins with a new one before it has none left.
func TestWasmLeak(t *testing.T) {
	if got := schedulePods(t, wasmConfig(wasmFile(t, module("filter", leaks...)), ""), 10, appPod("p", "a")); got != "" {
		t.Error(got)
	}
}

// TestWasmCacheState schedules pods with different labels in turn. The module keeps the size of the pod in prefilter, and rejects the pod in filter
// if it has another one: it sees only the labels, and prefilter is called again if the last one was for a pod with other labels.
func TestWasmCacheState(t *testing.T) {
	size := []byte{0x41, 0x80, 0x10, 0x41, 0x80, 0x20, 0x10, 0} // currentPod(2048, 4096)
	kept := []byte{0x41, 0x80, 0x08}                            // i32.const 1024
	prefilter := body(slices.Concat(kept, size, []byte{0x36, 2, 0, 0x41, 0})...)
	filter := body(slices.Concat(kept, []byte{0x28, 2, 0}, size, []byte{0x47, 0x41, 1, 0x74})...) // (memory[1024] != size) << 1
	path := wasmFile(t, binary(
		section(1, 2, 0x60, 0, 1, 0x7f, 0x60, 2, 0x7f, 0x7f, 1, 0x7f),
		section(2, append([]byte{1}, "\x10k8s.io/scheduler\x0acurrentPod\x00\x01"...)...),
		section(3, 2, 0, 0),
		section(5, 1, 0, 1),
		section(7, append([]byte{3}, "\x06memory\x02\x00\x09prefilter\x00\x01\x06filter\x00\x02"...)...),
		section(10, slices.Concat([]byte{2}, prefilter, filter)...),
	))
	var pods []*corev1.Pod
	for i := range 8 {
		pods = append(pods, appPod("p"+strings.Repeat("x", i), strings.Repeat("a", 1+i%2)))
	}
	if got := schedulePods(t, withCache(path, "metadata.labels"), 1, pods...); got != "" {
		t.Error(got)
	}
}

// TestWasmCacheErrors checks what of the argument cache is refused.
func TestWasmCacheErrors(t *testing.T) {
	for _, c := range []struct{ functions, field, want string }{
		{"filter", "spec.nodeName", `cache.podFields[0]: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", `},
		{"filter,reserve,bind", "metadata.labels", "cache: Forbidden: the module has reserve, bind: they could use what it keeps of another, equal pod"},
	} {
		conf := config(t, withCache(wasmFile(t, module(c.functions, accept...)), c.field))
		if _, err := scheduler.Inspect(t.Context(), Registry, conf); err == nil || !strings.Contains(err.Error(), "profiles[0].pluginConfig[0].args."+c.want) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}
