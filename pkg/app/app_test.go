package app

import (
	"context"
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
