// Package early owns what this program is besides minikctl: the supervisor that outlives the daemon, the first steps of a
// container, and the programs of the built-in images. All of them are minikctl started again under another name. They are
// dispatched here, before the packages that make minikctl big initialise: a container start then costs a few milliseconds
// and 10 MB instead of tens of both.
//
// Go initialises packages by import path as soon as what they import is initialised, so that this works only as long as
// nothing below this folder imports what comes late: nothing of ours or from elsewhere but golang.org/x/sys, and of the
// standard library neither net, net/http, net/netip (net needs packages called vendor/…, which come last of all), os/exec,
// path/filepath nor runtime/debug. A test holds that.
//
// A process is told its role by the name it is started under together with an environment variable (package role); the
// programs of built-in images by the name alone, which starts with "minikctl.dev/".
package early

import (
	"fmt"
	"os"

	"github.com/minikctl/minikctl/pkg/early/internal/launch"
	"github.com/minikctl/minikctl/pkg/early/internal/program"
	"github.com/minikctl/minikctl/pkg/early/internal/role"
	"github.com/minikctl/minikctl/pkg/early/internal/supervisor"
)

// This is the one init function of the project. Go initialises packages one by one and calls main last, so that only an
// init function can end a process before the init functions of the packages that come later have cost their time.
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

// Command is how a process is started.
type Command = role.Command

// Supervisor returns the command that runs a supervisor over the folder root. It needs a session of its own to outlive
// its parent. It says what keeps it from starting on its standard error, and closes its descriptor 3 when it serves.
func Supervisor(root string) Command {
	// It allocates little, and its size counts on every machine.
	return role.Start(role.Supervisor, []string{root}, "GOGC=50")
}
