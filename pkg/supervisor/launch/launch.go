// Package launch owns the first steps of a container: the process that the supervisor forks reads a wire.Launch from
// descriptor 3, gives itself the container's session, user, limits and system call filter, and then becomes the
// container's program. Descriptor 3 closes by itself when that succeeds.
package launch

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/minikctl/minikctl/pkg/supervisor/wire"
)

// Main does not return.
func Main() {
	runtime.LockOSThread() // privileges and filters belong to the thread that calls exec
	conn, err := wire.FileConn(os.NewFile(3, "supervisor"))
	if err != nil {
		os.Exit(125)
	}
	var l wire.Launch
	kept, err := conn.Receive(&l)
	if err != nil {
		os.Exit(125) // the supervisor is gone: there is nobody to tell
	}
	if len(kept) == 1 {
		keepTerminal(kept[0])
	}
	err = run(conn, &l)
	_ = conn.Send(wire.Launched{Error: err.Error()})
	os.Exit(125)
}

// run becomes the program, or returns why it cannot.
func run(conn *wire.Conn, l *wire.Launch) error {
	// Signals that the daemon was started to ignore must not stay ignored: what is caught now is reset by exec.
	signal.Notify(make(chan os.Signal, 1))
	syscall.Umask(0o022)
	if l.TTY {
		if err := ownTerminal(); err != nil {
			return err
		}
	}
	if l.Dir != "" { // first, since the container's own folder may be below one that its user may not enter
		if err := os.Chdir(l.Dir); err != nil {
			return cwdError(l.Dir, err)
		}
	}
	if err := becomeUser(l.UID, l.GID); err != nil {
		return err
	}
	path, err := lookPath(l.Argv[0], l.Env)
	if err != nil {
		return err
	}
	if err := filter(conn, l.Filter, l.Keep); err != nil {
		return err
	}
	if err := syscall.Exec(path, l.Argv, l.Env); err != nil {
		return &execError{l.Argv[0], describe(err)}
	}
	return nil
}

// becomeUser drops to a user. Asking for the user that one is already is fine without privileges.
func becomeUser(uid, gid *int64) error {
	if gid != nil || uid != nil {
		// Fails for an unprivileged daemon, whose groups then are its own user's anyway.
		_ = syscall.Setgroups(nil)
	}
	if gid != nil && int(*gid) != syscall.Getgid() {
		if err := syscall.Setgid(int(*gid)); err != nil {
			return &userError{"gid", *gid, err}
		}
	}
	if uid != nil && int(*uid) != syscall.Getuid() {
		if err := syscall.Setuid(int(*uid)); err != nil {
			return &userError{"uid", *uid, err}
		}
	}
	return nil
}

// describe turns an errno of exec into the words container runtimes use.
func describe(err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return errors.New("exec format error")
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return errors.New("permission denied")
	}
	return err
}
