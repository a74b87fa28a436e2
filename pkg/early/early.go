// Package early owns the dispatch of this binary's roles. The same binary is minikctl, the supervisor that outlives the
// daemon and its keeper (package supervisor), the first steps of a container (package launch) and the programs of the built-in images
// (package program). A process in another role than minikctl runs and ends here, before the large packages initialise, so
// that the start of a container costs a few milliseconds and 10 MB instead of tens of milliseconds and several tens of
// MB. For a command that will probably start a daemon, the dispatch starts the daemon's process, so that command and
// daemon initialise at the same time.
//
// Go initialises a package as soon as all its imports are initialised, and ready packages in the order of their import
// paths. The dispatch therefore runs early only while this package and its imports import little: outside the standard
// library only golang.org/x/sys, and in the standard library neither net, net/http, net/netip (net needs packages called
// vendor/…, which come last), os/exec, path/filepath nor runtime/debug. TestImports checks these limits.
//
// The name of the process together with an environment variable selects the role (package role). A name that starts with
// "minikctl.dev/" selects a program of a built-in image.
package early

import (
	"fmt"
	"os"

	"github.com/minikctl/minikctl/pkg/supervisor"
	"github.com/minikctl/minikctl/pkg/supervisor/launch"
	"github.com/minikctl/minikctl/pkg/supervisor/program"
	"github.com/minikctl/minikctl/pkg/supervisor/role"
)

// This is the only init function of the project. Go initialises all packages before it calls main, so that only an init
// function can end a process before the later packages initialise.
func init() {
	switch role.Current() {
	case role.Launch:
		launch.Main()
	case role.Supervisor:
		end(supervisor.Main(os.Args[1:]))
	case role.Keeper:
		end(supervisor.Keep(os.Args[1:]))
	case role.None:
		main := program.Find(os.Args[0])
		if main == nil {
			prepareDaemon()
			return
		}
		os.Exit(main(os.Args[1:]))
	}
	os.Exit(0)
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
