package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/minikctl/minikctl/pkg/supervisor/program"
	"github.com/minikctl/minikctl/pkg/supervisor/role"
)

type execError struct {
	name string
	err  error
}

func (e *execError) Error() string { return fmt.Sprintf("exec: %q: %v", e.name, e.err) }
func (e *execError) Unwrap() error { return e.err }

type userError struct {
	what string
	id   int64
	err  error
}

func (e *userError) Error() string { return fmt.Sprintf("run as %s %d: %v", e.what, e.id, e.err) }
func (e *userError) Unwrap() error { return e.err }

func cwdError(dir string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("chdir to cwd (%q) failed: %w", dir, err)
}

var errNotFound = errors.New("executable file not found in $PATH")

// lookPath finds a program as a shell in the container does: in the container's PATH and directory, as the container's user.
func lookPath(name string, env []string) (string, error) {
	if program.Find(name) != nil {
		return role.Self(), nil
	}
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", &execError{name, err}
		}
		return name, nil
	}
	for _, dir := range strings.Split(lookup(env, "PATH"), ":") {
		path := dir + "/" + name
		if dir == "" || dir == "." {
			path = "./" + name
		}
		if executable(path) == nil {
			return path, nil
		}
	}
	return "", &execError{name, errNotFound}
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return syscall.EISDIR
	}
	if info.Mode()&0o111 == 0 {
		return fs.ErrPermission
	}
	return nil
}

func lookup(env []string, name string) string {
	value := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v // the last one counts
		}
	}
	return value
}
