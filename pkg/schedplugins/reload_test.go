package schedplugins

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// strategy returns a configuration with one scoring strategy.
func strategy(name string) string {
	return header + `profiles:
- schedulerName: default-scheduler
  plugins:
    score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: ` + name + `}}
`
}

// TestReload changes the scoring strategy of a running scheduler and checks the chosen nodes, for each way to replace the
// file. An invalid file is refused and changes nothing.
func TestReload(t *testing.T) {
	c := newCluster(t)
	c.node("empty", "8")
	c.node("used", "8")
	directory := t.TempDir()
	file := filepath.Join(directory, "scheduler.yaml")
	write(t, file, strategy("LeastAllocated"))
	reloads := make(chan error, 10)
	c.start(func(cfg *scheduler.Config) {
		cfg.ConfigFile = file
		cfg.Reloaded = func(err error) { reloads <- err }
	})
	c.pod("first", "1")
	used := c.bound("first")
	scheduled := 0
	next := func(wantUsed bool) {
		t.Helper()
		scheduled++
		name := fmt.Sprintf("p%d", scheduled)
		c.pod(name, "10m")
		if got := c.bound(name); (got == used) != wantUsed {
			t.Errorf("%s is on %s, and first on %s", name, got, used)
		}
	}
	reloaded := func(want string) {
		t.Helper()
		select {
		case err := <-reloads:
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Fatalf("the scheduler received %v, want %q", err, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("the file was not read again")
		}
	}
	next(false)
	write(t, file, strategy("MostAllocated"))
	reloaded("")
	next(true)
	write(t, file, strategy("Whatever"))
	const unsupported = `profiles[0].pluginConfig[0].args.scoringStrategy.type: Unsupported value: "Whatever"`
	reloaded(unsupported)
	c.eventually("event", func() bool {
		return slices.ContainsFunc(c.events(), func(e *corev1.Event) bool {
			return e.InvolvedObject.Kind == "Namespace" && e.InvolvedObject.Name == "kube-system" && e.Type == corev1.EventTypeWarning &&
				e.Reason == "SchedulerConfigInvalid" && strings.Contains(e.Message, unsupported)
		})
	})
	next(true)
	write(t, file, header+"profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]")
	reloaded(`profiles[0].plugins.filter.enabled[0].name: Unsupported value: "Nope"`)
	next(true)
	write(t, filepath.Join(directory, "new"), strategy("LeastAllocated"))
	if err := os.Rename(filepath.Join(directory, "new"), file); err != nil {
		t.Fatal(err)
	}
	reloaded("")
	next(false)
	for want, remove := range map[string]func() error{
		"there is no such file": func() error { return os.Remove(file) },
		"the file is empty":     func() error { return os.Truncate(file, 0) },
	} {
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		reloaded(want)
		next(false)
		write(t, file, strategy("LeastAllocated"))
		reloaded("")
	}
}

// TestReloadCloses checks that plugins are closed, once, when a reload drops them or refuses the configuration that they
// were made for, and when the scheduler ends.
func TestReloadCloses(t *testing.T) {
	c := newCluster(t)
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	write(t, file, faultyProfile)
	var mu sync.Mutex
	var made []*faulty
	registry := maps.Clone(Registry)
	registry["Faulty"] = func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) {
		mu.Lock()
		defer mu.Unlock()
		made = append(made, &faulty{done: map[string]bool{}})
		return made[len(made)-1], nil
	}
	nth := func(i int) *faulty {
		mu.Lock()
		defer mu.Unlock()
		return made[i]
	}
	reloads := make(chan error, 1)
	stop := c.start(func(cfg *scheduler.Config) {
		cfg.ConfigFile, cfg.Registry, cfg.Reloaded = file, registry, func(err error) { reloads <- err }
	})
	c.node("n", "8")
	c.pod("p", "1m", func(p *corev1.Pod) { p.Spec.SchedulerName = "faulty" })
	c.bound("p") // the scheduler runs, and so it watches the file
	write(t, file, strings.Replace(faultyProfile, "bind: {disabled", "filter: {enabled: [{name: DefaultBinder}]}\n    bind: {disabled", 1))
	if err := <-reloads; err == nil || !nth(1).isClosed() || nth(0).isClosed() {
		t.Fatalf("after a refused reload (%v): the new plugin is closed: %v, the old one: %v", err, nth(1).isClosed(), nth(0).isClosed())
	}
	write(t, file, faultyProfile+"# again\n")
	if err := <-reloads; err != nil {
		t.Fatal(err)
	}
	c.eventually("closed", nth(0).isClosed)
	if nth(2).isClosed() {
		t.Error("the plugin in force is closed")
	}
	stop()
	if !nth(2).isClosed() {
		t.Error("the plugin is not closed after the scheduler has ended")
	}
}

// TestReloadThroughLinks replaces the file as a mounted ConfigMap does: the file and its directory are symbolic links.
func TestReloadThroughLinks(t *testing.T) {
	c := newCluster(t)
	directory := t.TempDir()
	version := func(name, content string) {
		dir := filepath.Join(directory, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "scheduler.yaml"), content)
		link := filepath.Join(directory, "..data")
		if err := os.Symlink(name, link+"_tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+"_tmp", link); err != nil {
			t.Fatal(err)
		}
	}
	version("..v1", strategy("LeastAllocated"))
	file := filepath.Join(directory, "scheduler.yaml")
	if err := os.Symlink("..data/scheduler.yaml", file); err != nil {
		t.Fatal(err)
	}
	reloads := make(chan error, 10)
	c.start(func(cfg *scheduler.Config) {
		cfg.ConfigFile = file
		cfg.Reloaded = func(err error) { reloads <- err }
	})
	c.node("n", "1")
	c.pod("p", "10m")
	c.bound("p") // the scheduler runs, and so it watches the file
	version("..v2", strategy("MostAllocated"))
	select {
	case err := <-reloads:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the file was not read again")
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestConfig checks that the errors of a configuration name the plugin, the place and the alternatives.
func TestConfig(t *testing.T) {
	profile := func(s string) string { return header + "profiles:\n- " + s }
	for _, c := range []struct{ name, config, want string }{
		{"defaults", header, ""},
		{"unknown plugin", profile(`plugins: {score: {enabled: [{name: Nope}]}}`), `profiles[0].plugins.score.enabled[0].name: Unsupported value: "Nope": supported values: "CEL", "CEL/*", "Coscheduling", "DefaultBinder"`},
		{"unknown plugin, disabled", profile(`plugins: {score: {disabled: [{name: Nope}]}}`), `profiles[0].plugins.score.disabled[0].name: Unsupported value: "Nope"`},
		{"arguments of an unknown plugin", profile(`pluginConfig: [{name: Nope, args: {}}]`), `profiles[0].pluginConfig[0].name: Unsupported value: "Nope"`},
		{"unknown argument", profile(`pluginConfig: [{name: NodeResourcesFit, args: {strateg: {}}}]`), `profiles[0].pluginConfig[0].args: scheduler plugin NodeResourcesFit: unknown field "strateg"`},
		{"arguments of a disabled plugin", profile(`{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}, pluginConfig: [{name: NodeResourcesFit, args: {strateg: {}}}]}`), `unknown field "strateg"`},
		{"arguments of another kind", profile(`pluginConfig: [{name: NodeResourcesFit, args: {kind: NodeAffinityArgs, apiVersion: kubescheduler.config.k8s.io/v1}}]`), `profiles[0].pluginConfig[0].args.kind: Unsupported value: "NodeAffinityArgs": supported values: "NodeResourcesFitArgs"`},
		{"arguments where there are none", profile(`pluginConfig: [{name: NodeName, args: {a: 1}}]`), `profiles[0].pluginConfig[0].args: scheduler plugin NodeName: the plugin takes no arguments`},
		{"repeated arguments", profile(`pluginConfig: [{name: NodeAffinity, args: {}}, {name: NodeAffinity, args: {}}]`), `profiles[0].pluginConfig[1]: Duplicate value: "NodeAffinity"`},
		{"weight", profile(`plugins: {score: {enabled: [{name: ImageLocality, weight: -1}]}}`), `profiles[0].plugins.score.enabled[0].weight: Invalid value: -1: not in valid range [0-`},
		{"twice", profile(`plugins: {filter: {enabled: [{name: NodeName}, {name: NodeName}]}}`), `profiles[0].plugins.filter.enabled[1].name: Duplicate value: "NodeName"`},
		{"not its point", profile(`plugins: {score: {enabled: [{name: NodeName}]}}`), `profiles[0].plugins.score.enabled[0].name: Invalid value: "NodeName": the plugin has no extension point score`},
		{"no binder", profile(`plugins: {bind: {disabled: [{name: "*"}]}}`), `profiles[0].plugins.bind: Required value: at least one bind plugin is needed`},
		{"no sorter", profile(`plugins: {queueSort: {disabled: [{name: "*"}]}}`), `profiles[0].plugins.queueSort: Required value: one queue sort plugin required, but got 0`},
		{"not its point of pod groups", profile(`plugins: {placementScore: {enabled: [{name: NodeName}]}}`), `profiles[0].plugins.placementScore.enabled[0].name: Invalid value: "NodeName": the plugin has no extension point placementScore`},
		{"weight of a placement score", profile(`plugins: {placementScore: {enabled: [{name: PodGroupPodsCount, weight: -1}]}}`), `profiles[0].plugins.placementScore.enabled[0].weight: Invalid value: -1: not in valid range [0-`},
		{"points of pod groups", profile(`plugins: {placementGenerate: {enabled: [{name: TopologyPlacementGenerator}]}, placementScore: {enabled: [{name: PodGroupPodsCount, weight: 3}], disabled: [{name: NodeResourcesFit}]}}`), ""},
		{"resource weight", profile(`pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {resources: [{name: cpu, weight: 101}]}}}]`), `profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range [1, 100]`},
		{"no shape", profile(`pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio}}}]`), `profiles[0].pluginConfig[0].args.scoringStrategy.requestedToCapacityRatio.shape: Required value`},
		{"all errors", header + "parallelism: -1\nprofiles:\n- plugins: {score: {enabled: [{name: Nope}]}}\n  pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]\n",
			"scheduler config: parallelism: Invalid value: -1: should be an integer value greater than zero\nscheduler config: " + `profiles[0].plugins.score.enabled[0].name: Unsupported value: "Nope": supported values: "CEL", "CEL/*", "Coscheduling", "DefaultBinder"`},
		{"the arguments of the second profile", header + "profiles:\n- schedulerName: a\n- schedulerName: b\n  pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]\n",
			`profiles[1].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 101: not in valid range [0-100]`},
		{"CEL", profile("pluginConfig: [{name: CEL/ssd, args: {filter: 'node.lables.disk == \"ssd\"'}}]"),
			"profiles[0].pluginConfig[0].args.filter: Invalid value: \"node.lables.disk == \\\"ssd\\\"\": compilation failed: ERROR: <input>:1:5: undefined field 'lables'"},
		{"CEL of another type", profile("pluginConfig: [{name: CEL, args: {score: 'node.name'}}]"), `profiles[0].pluginConfig[0].args.score: Invalid value: "node.name": must evaluate to int or double, not string`},
		{"CEL without arguments", profile("plugins: {multiPoint: {enabled: [{name: CEL}]}}"), `profiles[0].plugins: scheduler plugin CEL: filter: Required value`},
		{"an instance of a plugin that has none", profile("plugins: {multiPoint: {enabled: [{name: NodeName/a}]}}"), `profiles[0].plugins.multiPoint.enabled[0].name: Unsupported value: "NodeName/a"`},
		{"CEL of all instances", profile("plugins: {multiPoint: {enabled: [{name: CEL/*}]}}"), `profiles[0].plugins.multiPoint.enabled[0].name: Unsupported value: "CEL/*"`},
		{"CEL with instances", profile("plugins: {multiPoint: {enabled: [{name: CEL/a}, {name: CEL/b, weight: 3}]}}\n  pluginConfig: [{name: CEL/a, args: {filter: 'true'}}, {name: CEL/b, args: {apiVersion: minikctl.dev/v1, kind: CELArgs, score: node.pods}}]"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := &configv1.KubeSchedulerConfiguration{}
			if err := plug.Decode([]byte(c.config), conf); err != nil {
				t.Fatal(err)
			}
			_, err := scheduler.New(scheduler.Config{Clock: clock.Real(), Source: clock.NewSource(1), Registry: Registry, Config: conf})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

// TestConfigOfSmallerRegistry configures a default plugin that a program has left out.
func TestConfigOfSmallerRegistry(t *testing.T) {
	registry := maps.Clone(Registry)
	delete(registry, "VolumeZone")
	for action, want := range map[string]string{
		"enabled":  `profiles[0].plugins.multiPoint.enabled[0].name: Unsupported value: "VolumeZone"`,
		"disabled": "",
	} {
		conf := &configv1.KubeSchedulerConfiguration{}
		if err := plug.Decode([]byte(header+"profiles:\n- plugins: {multiPoint: {"+action+": [{name: VolumeZone}]}}"), conf); err != nil {
			t.Fatal(err)
		}
		_, err := scheduler.New(scheduler.Config{Clock: clock.Real(), Source: clock.NewSource(1), Registry: registry, Config: conf})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got error %v, want %q", action, err, want)
		}
	}
}
