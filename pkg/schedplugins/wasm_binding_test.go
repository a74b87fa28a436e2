package schedplugins

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/minikctl/minikctl/pkg/scheduler"
)

// TestWasmBinding checks the functions from reserve to postbind, and those of the Handle. Each pod has the module's memory to itself from its
// prefilter to the end of its binding cycle, also while another pod is scheduled.
func TestWasmBinding(t *testing.T) {
	c := newCluster(t)
	c.node("n", "8")
	conf := config(t, strings.Replace(wasmConfig(buildModule(t, "testdata/guest"), ""), "plugins: {",
		`plugins: {bind: {disabled: [{name: "*"}], enabled: [{name: Wasm/test}, {name: DefaultBinder}]}, `, 1))
	c.start(func(cfg *scheduler.Config) { cfg.Config, cfg.Registry, cfg.Timeouts = conf, patient(), patience })
	c.pod("waits", "1")
	c.event("waits", "Waiting", "prefilter waits, reserve n, permit")
	waits := c.until("waits", "in the cache", func(*corev1.Pod) bool { return true })
	c.pod("plain", "1")
	c.event("plain", "Bound", "prefilter plain, reserve n, permit, prebind, node, nodes, bind, postbind")
	killer := "k-" + string(waits.UID)
	c.pod(killer, "1")
	c.event(killer, "Bound", "prefilter "+killer+", reserve n, permit, prebind, node, nodes, waiting waits, rejected 1, waiting , rejected 0, bind, postbind")
	c.event("waits", "Unreserved", "prefilter waits, reserve n, permit, unreserve")
	c.bound("plain")
	c.bound(killer)
	d := c.decision("waits", "Unschedulable")
	if d.Message != "removed" {
		t.Errorf("decision: %+v", d)
	}
}

// TestWasmBindingFailures checks what becomes of a pod whose module traps in a function from reserve to postbind: an error ends the attempt,
// with the name of the plugin. Functions without a status cannot end it.
func TestWasmBindingFailures(t *testing.T) {
	for _, point := range []struct{ function, site string }{{"reserve", "Reserve"}, {"permit", "Permit"}, {"prebind", "PreBind"}, {"bind", "Bind"}, {"unreserve", ""}, {"postbind", ""}} {
		t.Run(point.function, func(t *testing.T) {
			c := newCluster(t)
			c.node("n", "8")
			conf := config(t, strings.Replace(wasmConfig(wasmFile(t, module(point.function, traps...)), ""), "plugins: {",
				`plugins: {bind: {disabled: [{name: "*"}], enabled: [`+map[bool]string{true: "{name: Wasm/test}, "}[point.function == "bind"]+`{name: DefaultBinder}]}, `, 1))
			c.start(func(cfg *scheduler.Config) { cfg.Config, cfg.Registry, cfg.Timeouts = conf, patient(), patience })
			c.pod("p", "1")
			if point.site == "" {
				c.bound("p")
				return
			}
			d := c.decision("p", "Error")
			if want := "running " + point.site + ` plugin "Wasm/test": wasm: ` + point.function + " error: wasm error: unreachable"; !strings.HasPrefix(d.Message, want) {
				t.Errorf("got %s, want %s", d.Message, want)
			}
		})
	}
}

// TestWasmEventInSimulation: an Event of a module in a simulation has no effect.
func TestWasmEventInSimulation(t *testing.T) {
	event := `{"Reason":"R","Action":"A","Note":"N","Eventtype":"Normal"}`
	path := wasmFile(t, calling("k8s.io/scheduler", "handle.eventrecorder.eventf", event))
	if got := simulate(t, wasmConfig(path, ""), []*corev1.Node{someNode("a")}, nil, somePod("p", "")); got.Node != "a" {
		t.Errorf("node %q: %s", got.Node, got.Message)
	}
	path = wasmFile(t, calling("k8s.io/scheduler", "handle.eventrecorder.eventf", "no JSON"))
	if got := simulate(t, wasmConfig(path, ""), []*corev1.Node{someNode("a")}, nil, somePod("p", "")); !strings.Contains(got.Message, "invalid character") {
		t.Errorf("an Event that is no JSON: node %q: %s", got.Node, got.Message)
	}
}
