// Package launch owns the first steps of a container's process: it reads a wire.Launch from descriptor 3, takes on the
// container's terminal, mounts, user and system call filter, and executes the container's program. Success closes descriptor 3.
package launch

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// Main runs the first steps, and does not return.
func Main() {
	runtime.LockOSThread() // privileges and filters belong to the thread that calls exec
	conn, err := wire.FileConn(os.NewFile(3, "supervisor"))
	if err != nil {
		os.Exit(125)
	}
	var l wire.Launch
	kept, err := conn.Receive(&l)
	if err != nil {
		os.Exit(125) // the supervisor has died
	}
	if len(kept) == 1 {
		keepTerminal(kept[0])
	}
	err = run(conn, &l)
	_ = conn.Send(wire.Launched{Error: err.Error()})
	os.Exit(125)
}

// run executes the program. It returns only if that fails.
func run(conn *wire.Conn, l *wire.Launch) error {
	// The daemon may have been started with ignored signals. exec resets signals that are caught to their defaults.
	signal.Notify(make(chan os.Signal, 1))
	syscall.Umask(0o022)
	if l.TTY {
		if err := ownTerminal(); err != nil {
			return err
		}
	}
	if err := enterNamespaces(l); err != nil {
		return err
	}
	if l.Dir != "" { // before becomeUser: the container's user may lack access to a parent directory
		if err := os.Chdir(l.Dir); err != nil {
			return cwdError(l.Dir, err)
		}
	}
	// The order matters: filters without no_new_privs need the capabilities that confine drops, and programs are looked up as the
	// container's user.
	if err := noNewPrivileges(l.Security); err != nil {
		return err
	}
	if err := filter(conn, l.Filter); err != nil {
		return err
	}
	if l.Security.DenyCalls {
		if err := denyCalls(l.Security.Capabilities); err != nil {
			return err
		}
	}
	if err := confine(l.Security); err != nil {
		return err
	}
	if err := becomeUser(l); err != nil {
		return err
	}
	path, err := lookPath(l.Argv[0], l.Env)
	if err != nil {
		return err
	}
	if err := syscall.Exec(path, l.Argv, l.Env); err != nil {
		return &execError{l.Argv[0], describe(err)}
	}
	return nil
}

// enterNamespaces prepares the namespaces that this process was started in, if the container has any.
func enterNamespaces(l *wire.Launch) error {
	if l.MountDir == "" {
		return nil
	}
	if err := mount(l); err != nil {
		return err
	}
	if l.Hostname != "" {
		return setHostname(l.Hostname)
	}
	return nil
}

// becomeUser switches to the user and the groups of the container. Without privileges only the current ones are allowed.
func becomeUser(l *wire.Launch) error {
	best := l.Security.BestEffort
	if l.GID != nil || l.UID != nil || len(l.Security.Groups) > 0 {
		err := syscall.Setgroups(groupNumbers(l.Security.Groups))
		// Without privileges the groups stay those of the daemon's user: then a container without groups of its own has more than it asks for.
		if err != nil && len(l.Security.Groups) > 0 && !best {
			return fmt.Errorf("set the supplemental groups %v: %w", l.Security.Groups, err)
		}
	}
	if l.GID != nil && int(*l.GID) != syscall.Getgid() {
		if err := syscall.Setgid(int(*l.GID)); err != nil && !best {
			return &userError{"gid", *l.GID, err}
		}
	}
	if l.UID != nil && int(*l.UID) != syscall.Getuid() {
		if err := syscall.Setuid(int(*l.UID)); err != nil && !best {
			return &userError{"uid", *l.UID, err}
		}
	}
	return nil
}

func groupNumbers(groups []int64) []int {
	out := make([]int, len(groups))
	for i, g := range groups {
		out[i] = int(g)
	}
	return out
}

// describe returns an error of exec in the words of container runtimes.
func describe(err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return errors.New("exec format error")
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return errors.New("permission denied")
	}
	return err
}
