// Package app is minikctl as a library: a program that calls Run is minikctl, with the scheduler plugins that it adds.
//
//	func main() {
//		os.Exit(app.Run(context.Background(), app.WithPlugin("FewestPods", newFewestPods)))
//	}
//
// The daemons that the program starts in the background are the same program, so that they have the plugins, too.
package app

import (
	"context"
	"fmt"
	"maps"
	"os"

	"github.com/minikctl/minikctl/pkg/cli"
	_ "github.com/minikctl/minikctl/pkg/early" // container processes leave here, before anything large is initialised
	"github.com/minikctl/minikctl/pkg/schedplugins"
	"github.com/minikctl/minikctl/pkg/scheduler"
)

// Option changes the program.
type Option func(scheduler.Registry) error

// WithPlugin adds a scheduler plugin. Configurations enable it by its name, and have arguments for it, which the factory gets as a
// *runtime.Unknown with JSON, or nil. The name must not be that of another plugin.
func WithPlugin(name string, factory scheduler.Factory) Option {
	return func(plugins scheduler.Registry) error {
		if plugins.Has(name) {
			return fmt.Errorf("a plugin named %v already exists", name)
		}
		plugins[name] = factory
		return nil
	}
}

// Run runs the command line of this process as minikctl and returns the exit status. It is called once, from main.
func Run(ctx context.Context, options ...Option) int {
	plugins, err := registry(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return cli.Run(ctx, plugins, os.Args, os.Stdin, os.Stdout, os.Stderr)
}

// registry returns minikctl's plugins and those of the options.
func registry(options ...Option) (scheduler.Registry, error) {
	plugins := maps.Clone(schedplugins.Registry)
	for _, option := range options {
		if err := option(plugins); err != nil {
			return nil, err
		}
	}
	return plugins, nil
}
