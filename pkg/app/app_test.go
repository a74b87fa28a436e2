package app

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kube-scheduler/framework"

	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// TestWithPlugin checks that a plugin is added under its name, unless there is one of the name.
func TestWithPlugin(t *testing.T) {
	factory := func(context.Context, runtime.Object, framework.Handle) (framework.Plugin, error) { return nil, nil }
	plugins := scheduler.Registry{}
	if err := WithPlugin("New", factory)(plugins); err != nil || plugins["New"] == nil {
		t.Errorf("got %v, plugins %v", err, plugins)
	}
	if err := WithPlugin("New", factory)(plugins); err == nil || err.Error() != "a plugin named New already exists" {
		t.Errorf("got %v", err)
	}
	if Run(t.Context(), WithPlugin("NodeName", factory)) != 1 {
		t.Error("a plugin of minikctl is replaced")
	}
	if _, ok := schedplugins.Registry["New"]; ok {
		t.Error("the plugin is in minikctl's own list")
	}
}
