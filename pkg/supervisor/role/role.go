// Package role owns the roles in which this program runs, and the commands that start it in a role.
package role

import (
	"os"
	"syscall"
)

// Role is the job of a process of this program.
type Role string

const (
	None       Role = "" // minikctl itself
	Launch     Role = "container"
	Supervisor Role = "supervisor"
	Keeper     Role = "keeper"
)

// marker is the environment variable that holds the role. It counts only together with the title as the process's name.
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

// Command holds the arguments of exec.
type Command struct {
	Path string
	Args []string // including the name
	Env  []string
}

// Start returns the command that runs this program in a role. Its environment holds nothing but the role, and env, and
// the options of the race detector if this program has it.
func Start(r Role, args []string, env ...string) Command {
	return Command{
		Path: Self(),
		Args: append([]string{r.title()}, args...),
		Env:  append(append([]string{marker + "=" + string(r)}, Inherited()...), env...),
	}
}

// OwnSession returns the attributes of a process that leads a new session, and so a new process group.
func OwnSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
