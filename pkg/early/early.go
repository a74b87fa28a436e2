// Package early owns what this program is besides minikctl: the supervisor that outlives the daemon, the first steps of a
// container, and the programs of the built-in images. All of them are minikctl started again under another name. They are
// dispatched here, before the packages that make minikctl big initialise: a container start then costs a few milliseconds
// and 10 MB instead of tens of both. For the same reason nothing below this folder imports anything but the standard
// library and golang.org/x/sys, and the program's main package imports this one first.
//
// A process is told its role by the name it is started under together with an environment variable (package role); the
// programs of built-in images by the name alone, which starts with "minikctl.dev/".
package early

import (
	"fmt"
	"os"
	"os/exec"

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

// Supervisor returns the command that runs a supervisor over the folder root. It outlives its parent. It says what keeps
// it from starting on its standard error, and closes its descriptor 3 when it serves.
func Supervisor(root string) *exec.Cmd {
	cmd := role.Command(role.Supervisor, root)
	cmd.Dir = "/"
	cmd.SysProcAttr = role.OwnSession()
	return cmd
}
