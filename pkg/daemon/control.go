package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/early"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
)

// State is what a running daemon says of itself, in Paths.State.
type State struct {
	PID     int       `json:"pid"`
	Address string    `json:"address"` // of the API, as a URL; "" when it runs none
	Parts   []string  `json:"parts"`
	Started time.Time `json:"started"`
}

// ReadState returns the state that the last daemon wrote; it may have died since (see Running).
func ReadState(p Paths) (State, error) {
	var s State
	b, err := os.ReadFile(p.State)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(b, &s)
}

func writeState(p Paths, s State) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	tmp := p.State + ".new"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, p.State)
}

// Running reports whether a daemon answers on the socket.
func Running(p Paths) bool {
	if checkSocket(p) != nil {
		return false // nobody of ours, that is; who starts one is told
	}
	conn, err := net.DialTimeout("unix", p.Socket, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// readyVariable holds the number of a file descriptor on which a daemon in the background says that it is ready, or why
// it could not start.
const readyVariable = "MINIKCTL_READY_FD"

// Spawn starts a daemon in the background, with the arguments of up, and waits until it is ready.
func Spawn(ctx context.Context, p Paths, args []string) error {
	if err := os.MkdirAll(p.Data, 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	ready, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(self(), append([]string{"up", "--name", p.Name}, args...)...)
	cmd.Args[0] = "minikctl"
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{write}
	cmd.Env = append(os.Environ(), readyVariable+"=3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	early.KeepDescriptors()
	err = cmd.Start()
	write.Close()
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	return errors.Join(awaitReady(ctx, ready, p), cmd.Process.Release())
}

// self is this program, even when its file is gone as after go run.
func self() string {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe"
	}
	exe, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return exe
}

func awaitReady(ctx context.Context, ready *os.File, p Paths) error {
	stop := context.AfterFunc(ctx, func() { ready.Close() })
	defer stop()
	b, err := io.ReadAll(ready)
	switch said := strings.TrimSpace(string(b)); {
	case ctx.Err() != nil:
		return ctx.Err()
	case said == "ready":
		return nil
	case said != "":
		return errors.New(strings.TrimPrefix(said, "error: "))
	case err != nil:
		return err
	}
	return fmt.Errorf("the daemon ended before it was ready; its last words are in %s", p.Log)
}

// sayReady tells who spawned this daemon how the start went. Nobody may be waiting.
func sayReady(err error) {
	fd := os.Getenv(readyVariable)
	if fd != "3" {
		return
	}
	os.Unsetenv(readyVariable)
	f := os.NewFile(3, "ready")
	defer f.Close()
	if err != nil {
		fmt.Fprintf(f, "error: %v\n", err)
		return
	}
	fmt.Fprintln(f, "ready")
}

// Stop ends the daemon and waits until it has. It does nothing when none runs.
func Stop(ctx context.Context, p Paths) error {
	s, err := ReadState(p)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !isDaemon(s.PID, p) {
		return nil
	}
	if err := syscall.Kill(s.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop daemon %d: %w", s.PID, err)
	}
	for isDaemon(s.PID, p) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("daemon %d does not end: %w", s.PID, ctx.Err())
		case <-clock.Real().After(5 * time.Millisecond):
		}
	}
	return nil
}

// isDaemon reports whether pid is alive and holds the lock on the daemon's data, so that a number which another process
// has got since is never mistaken for the daemon's.
func isDaemon(pid int, p Paths) bool {
	if pid <= 0 || syscall.Kill(pid, 0) != nil {
		return false
	}
	f, err := os.Open(lockPath(p))
	if err != nil {
		return false
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return true // held: by the daemon
	}
	return false
}

func lockPath(p Paths) string { return filepath.Join(p.Data, "daemon.lock") }

// ErrLocked means that another daemon uses the data folder.
var ErrLocked = errors.New("data folder is in use by another daemon")

// lock takes the data folder for this process until it ends.
func lock(p Paths) (*os.File, error) {
	if err := os.MkdirAll(p.Data, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(lockPath(p), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if s, readErr := ReadState(p); readErr == nil {
			return nil, fmt.Errorf("%s: %w (process %d)", p.Data, ErrLocked, s.PID)
		}
		return nil, fmt.Errorf("%s: %w", p.Data, ErrLocked)
	}
	return f, nil
}

// Alive reports whether a daemon of p runs, also one without an API server, which has no socket.
func Alive(p Paths) bool {
	s, err := ReadState(p)
	return err == nil && isDaemon(s.PID, p)
}

// PodsKept reports whether the pods of a daemon run, though it may be gone itself.
func PodsKept(p Paths) bool { return process.Supervised(p.Runtime) }

// All returns the daemons of this user that there are or have been, by name.
func All() ([]Paths, error) {
	entries, err := os.ReadDir(Home())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Paths
	for _, e := range entries {
		if p := PathsOf(e.Name()); e.IsDir() || e.Type()&os.ModeSymlink != 0 {
			if _, err := os.Stat(lockPath(p)); err == nil {
				out = append(out, p)
			}
		}
	}
	return out, nil
}
