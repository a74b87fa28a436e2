package schedplugins

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/plug"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

// strategy is a configuration that scores by that strategy alone.
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

// TestReload swaps the scoring strategy of a live scheduler and sees placement flip, however the file is replaced; a
// file that is wrong is refused and changes nothing.
func TestReload(t *testing.T) {
	c := newCluster(t)
	c.node("empty", "8")
	c.node("used", "8")
	folder := t.TempDir()
	file := filepath.Join(folder, "scheduler.yaml")
	write(t, file, strategy("LeastAllocated"))
	told := make(chan error, 10)
	c.start(func(cfg *scheduler.Config) {
		cfg.ConfigFile = file
		cfg.Reloaded = func(err error) { told <- err }
	})
	c.pod("first", "1")
	used := c.bound("first")
	placed := 0
	next := func(wantUsed bool) {
		t.Helper()
		placed++
		name := fmt.Sprintf("p%d", placed)
		c.pod(name, "10m")
		if got := c.bound(name); (got == used) != wantUsed {
			t.Errorf("%s is on %s, and first on %s", name, got, used)
		}
	}
	reloaded := func(want string) {
		t.Helper()
		select {
		case err := <-told:
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Fatalf("the scheduler was told %v, want %q", err, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the file was not read again")
		}
	}
	next(false)
	write(t, file, strategy("MostAllocated"))
	reloaded("")
	next(true)
	write(t, file, strategy("Whatever"))
	reloaded(`scheduler plugin NodeResourcesFit: args: scoringStrategy.type: Unsupported value: "Whatever"`)
	next(true)
	write(t, file, header+"profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]")
	reloaded(`scheduler plugin "Nope" is not one of [`)
	next(true)
	write(t, filepath.Join(folder, "new"), strategy("LeastAllocated"))
	if err := os.Rename(filepath.Join(folder, "new"), file); err != nil {
		t.Fatal(err)
	}
	reloaded("")
	next(false)
}

// TestReloadThroughLinks replaces the file as a mounted ConfigMap does: it is a link through a folder that is a link.
func TestReloadThroughLinks(t *testing.T) {
	c := newCluster(t)
	folder := t.TempDir()
	version := func(name, content string) {
		dir := filepath.Join(folder, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "scheduler.yaml"), content)
		link := filepath.Join(folder, "..data")
		if err := os.Symlink(name, link+"_tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+"_tmp", link); err != nil {
			t.Fatal(err)
		}
	}
	version("..v1", strategy("LeastAllocated"))
	file := filepath.Join(folder, "scheduler.yaml")
	if err := os.Symlink("..data/scheduler.yaml", file); err != nil {
		t.Fatal(err)
	}
	told := make(chan error, 10)
	c.start(func(cfg *scheduler.Config) {
		cfg.ConfigFile = file
		cfg.Reloaded = func(err error) { told <- err }
	})
	c.node("n", "1")
	c.pod("p", "10m")
	c.bound("p") // the scheduler runs, and so watches the file
	version("..v2", strategy("MostAllocated"))
	select {
	case err := <-told:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the file was not read again")
	}
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestConfig sees what is wrong with a configuration's plugins named, with its place and the choices.
func TestConfig(t *testing.T) {
	profile := func(s string) string { return header + "profiles:\n- " + s }
	for _, c := range []struct{ name, config, want string }{
		{"defaults", header, ""},
		{"unknown plugin", profile(`plugins: {score: {enabled: [{name: Nope}]}}`), `scheduler plugin "Nope" is not one of [DefaultBinder DefaultPreemption`},
		{"a plugin that is not there yet", profile(`plugins: {multiPoint: {enabled: [{name: VolumeBinding}]}}`), `scheduler plugin "VolumeBinding" is not one of [`},
		{"a plugin that is not there yet, disabled", profile(`plugins: {multiPoint: {disabled: [{name: VolumeBinding}]}}`), ""},
		{"unknown plugin, disabled", profile(`plugins: {score: {disabled: [{name: Nope}]}}`), `score.disabled: scheduler plugin "Nope" is not one of [`},
		{"arguments of an unknown plugin", profile(`pluginConfig: [{name: Nope, args: {}}]`), `pluginConfig: scheduler plugin "Nope" is not one of [`},
		{"unknown argument", profile(`pluginConfig: [{name: NodeResourcesFit, args: {strateg: {}}}]`), `scheduler plugin NodeResourcesFit: args: unknown field "strateg"`},
		{"arguments of a disabled plugin", profile(`{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}, pluginConfig: [{name: NodeResourcesFit, args: {strateg: {}}}]}`), `unknown field "strateg"`},
		{"arguments of another kind", profile(`pluginConfig: [{name: NodeResourcesFit, args: {kind: NodeAffinityArgs, apiVersion: kubescheduler.config.k8s.io/v1}}]`), `args: kind is "NodeAffinityArgs", want "NodeResourcesFitArgs"`},
		{"arguments where there are none", profile(`pluginConfig: [{name: NodeName, args: {a: 1}}]`), `scheduler plugin NodeName: args: the plugin has none`},
		{"repeated arguments", profile(`pluginConfig: [{name: NodeAffinity, args: {}}, {name: NodeAffinity, args: {}}]`), `repeated config for plugin NodeAffinity`},
		{"weight", profile(`plugins: {score: {enabled: [{name: ImageLocality, weight: -1}]}}`), `scheduler plugin ImageLocality: weight -1 is not between 0 and`},
		{"twice", profile(`plugins: {filter: {enabled: [{name: NodeName}, {name: NodeName}]}}`), `filter: plugin "NodeName" already registered`},
		{"not its point", profile(`plugins: {score: {enabled: [{name: NodeName}]}}`), `scheduler plugin NodeName has no extension point score`},
		{"no binder", profile(`plugins: {bind: {disabled: [{name: "*"}]}}`), `at least one bind plugin is needed`},
		{"no sorter", profile(`plugins: {queueSort: {disabled: [{name: "*"}]}}`), `one queue sort plugin required, but got 0`},
		{"group points", profile(`plugins: {placementScore: {enabled: [{name: NodeName}]}}`), `has no such extension point`},
		{"resource weight", profile(`pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {resources: [{name: cpu, weight: 101}]}}}]`), `resource weight of cpu not in valid range [1, 100]`},
		{"no shape", profile(`pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: RequestedToCapacityRatio}}}]`), `shape: Required value`},
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
