// Package early owns the dispatch of this binary's roles. The same binary is minikctl, the supervisor that outlives the
// daemon (package supervisor), the first steps of a container (package launch) and the programs of the built-in images
// (package program). A process in one of the other roles ends here, before the packages that make minikctl big initialise,
// so that a container start costs a few milliseconds and 10 MB instead of tens of both.
//
// Go initialises a package as soon as all its imports are initialised, and ready packages in the order of their import
// paths. The dispatch therefore comes early only while this package, pkg/supervisor and the packages below it import
// little: from outside the standard library golang.org/x/sys alone, and of the standard library neither net, net/http,
// net/netip (net needs packages called vendor/…, which come last of all), os/exec, path/filepath nor runtime/debug.
// TestImports holds these limits.
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

// This is the one init function of the project. Go initialises packages one by one and calls main last, so that only an
// init function can end a process before the packages that come later have cost their time.
func init() {
	switch role.Current() {
	case role.Launch:
		launch.Main()
	case role.Supervisor:
		if err := supervisor.Main(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	case role.None:
		main := program.Find(os.Args[0])
		if main == nil {
			return
		}
		os.Exit(main(os.Args[1:]))
	}
	os.Exit(0)
}
