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
	"runtime"
	"runtime/debug"

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
	collectLater(os.Args)
	plugins, err := registry(options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return cli.Run(ctx, plugins, os.Args, os.Stdin, os.Stdout, os.Stderr)
}

// collectLater delays the first garbage collection of a command until its heap has 16 MB instead of Go's 4 MB. Most commands end before
// that, and would collect three times, which takes a quarter of their processor time. Later collections come as usual. The daemon, which
// the verb up runs, bounds its own garbage. A percent in $GOGC is the user's, and stays.
func collectLater(args []string) {
	if os.Getenv("GOGC") != "" || len(args) > 1 && args[1] == "up" {
		return
	}
	type sentinel struct{ p *int } // with a pointer: the allocator puts small objects without one together, which keeps them alive
	before := debug.SetGCPercent(400)
	runtime.AddCleanup(&sentinel{}, func(percent int) { debug.SetGCPercent(percent) }, before)
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
