package app

import (
	"context"
	goruntime "runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/schedplugins"
)

// TestWithPlugin checks that a plugin is added under its name, unless there is one of the name.
func TestWithPlugin(t *testing.T) {
	factory := func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) { return nil, nil }
	if plugins, err := registry(WithPlugin("New", factory)); err != nil || plugins["New"] == nil || plugins["NodeName"] == nil {
		t.Errorf("got %v, plugins %v", err, plugins)
	}
	if _, ok := schedplugins.Registry["New"]; ok {
		t.Error("the plugin is in minikctl's own list")
	}
	for _, name := range []string{"New", "NodeName", "CEL/mine"} {
		if _, err := registry(WithPlugin("New", factory), WithPlugin(name, factory)); err == nil || err.Error() != "a plugin named "+name+" already exists" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestCollectLater checks that the first garbage collection of a command comes late and the next ones as usual, and that those of a daemon always do.
func TestCollectLater(t *testing.T) {
	t.Setenv("GOGC", "")
	percent := func() uint64 {
		samples := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(samples)
		return samples[0].Value.Uint64()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	collectLater([]string{"minikctl", "up"})
	if got := percent(); got != 100 {
		t.Errorf("of a daemon: %d%%", got)
	}
	collectLater([]string{"minikctl", "get", "pods"})
	if got := percent(); got != 400 {
		t.Errorf("of a command: %d%%", got)
	}
	for percent() != 100 { // the cleanup of the sentinel runs after a collection
		goruntime.GC()
	}
}
