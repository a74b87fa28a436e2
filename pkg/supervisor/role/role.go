// Package role owns how this program is started again as something else.
package role

import (
	"os"
	"syscall"
)

// Role is what a process of this program is.
type Role string

const (
	None       Role = "" // minikctl itself
	Launch     Role = "container"
	Supervisor Role = "supervisor"
)

// marker holds the role in the environment. It counts only together with the process name, which nobody types.
const marker = "MINIKCTL_ROLE"

func (r Role) title() string { return "minikctl: " + string(r) }

// Current returns the role of this process.
func Current() Role {
	r := Role(os.Getenv(marker))
	if r == None || len(os.Args) == 0 || os.Args[0] != r.title() {
		return None
	}
	return r
}

// Command is how a process is started.
type Command struct {
	Path string
	Args []string // with the name it is started under
	Env  []string
}

// Start returns the command that runs this program in a role. Its environment holds nothing but the role, and env.
func Start(r Role, args []string, env ...string) Command {
	return Command{
		Path: Self(),
		Args: append([]string{r.title()}, args...),
		Env:  append([]string{marker + "=" + string(r)}, env...),
	}
}

// OwnSession is for commands that lead a session, and so a process group, of their own.
func OwnSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
