package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/autostart"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/early"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
)

// State describes a running daemon. The daemon writes it to Paths.State.
type State struct {
	PID     int       `json:"pid"`
	Address string    `json:"address"` // URL of the API server; "" when the daemon runs none
	Parts   []string  `json:"parts"`
	Started time.Time `json:"started"`

	// Processes reports whether containers are processes of the daemon's user.
	Processes bool `json:"processes,omitempty"`
}

// ReadState returns the state that the last daemon wrote. That daemon may have ended since (see Alive).
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

// Running reports whether a daemon accepts connections on the socket.
func Running(p Paths) bool {
	if checkSocket(p) != nil {
		return false // not a daemon of this user; the next up prints the error
	}
	conn, err := net.DialTimeout("unix", p.Socket, time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// Spawn starts a daemon in the background, with the arguments of up, and waits until it is ready.
func Spawn(ctx context.Context, p Paths, args []string) error {
	if err := makeFolder(p.Data); err != nil {
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
	err = early.RunDaemon(p.Name, append([]string{"minikctl", "up", "--name", p.Name}, args...), log, write)
	write.Close()
	if err != nil {
		return err
	}
	err = awaitReady(ctx, ready, p)
	if err != nil && !Exists(p) { // the daemon refused its config before it locked the data folder
		return errors.Join(err, p.remove())
	}
	return err
}

func awaitReady(ctx context.Context, ready *os.File, p Paths) error {
	stop := context.AfterFunc(ctx, func() { ready.Close() })
	defer stop()
	b, err := io.ReadAll(ready)
	switch outcome := strings.TrimSpace(string(b)); {
	case ctx.Err() != nil:
		return ctx.Err()
	case outcome == "ready":
		return nil
	case outcome != "":
		return errors.New(strings.TrimPrefix(outcome, "error: "))
	case err != nil:
		return err
	}
	return fmt.Errorf("the daemon ended before it was ready; its log is %s", p.Log)
}

// reportStart reports the outcome of the start to the command that started this daemon; it does nothing without one.
func reportStart(err error) {
	f := early.Report()
	if f == nil {
		return
	}
	defer f.Close()
	if err != nil {
		fmt.Fprintf(f, "error: %v\n", err)
		return
	}
	fmt.Fprintln(f, "ready")
}

// Stop ends the daemon with SIGTERM and waits for its end. It does nothing when no daemon runs.
func Stop(ctx context.Context, p Paths) error {
	s, err := ReadState(p)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	daemon := openProcess(s.PID)
	defer daemon.close()
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
	if err := daemon.wait(ctx); err != nil { // it releases the lock some time before it exits
		return fmt.Errorf("daemon %d does not exit: %w", s.PID, err)
	}
	return nil
}

// isDaemon reports whether process pid exists and the data folder of p is locked. The lock excludes a process that got the pid
// of a daemon that has ended.
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
		return true // the daemon holds it
	}
	return false
}

func lockPath(p Paths) string { return filepath.Join(p.Data, autostart.LockFile) }

// Exists reports whether a daemon has ever used the data folder of p.
func Exists(p Paths) bool { return exists(lockPath(p)) }

// ErrLocked means that another daemon uses the data folder.
var ErrLocked = errors.New("data folder is in use by another daemon")

// lock locks the data folder for this process. The lock lasts until the file is closed or the process ends.
func lock(p Paths) (*os.File, error) {
	if err := checkUnused(p); err != nil {
		return nil, err
	}
	if err := makeFolder(p.Data); err != nil {
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

// checkUnused refuses a folder that no daemon has used and that has files with the names of a daemon's files: down --purge
// would remove them.
func checkUnused(p Paths) error {
	if Exists(p) {
		return nil
	}
	for _, path := range p.createdFiles() {
		if path != p.Log && exists(path) { // Spawn creates the log
			return fmt.Errorf("data folder %s: %s is in it already and was not created by minikctl", p.Data, filepath.Base(path))
		}
	}
	return nil
}

// Alive reports whether a daemon of p runs. Unlike Running it includes a daemon without an API server, which has no socket.
func Alive(p Paths) bool {
	s, err := ReadState(p)
	return err == nil && isDaemon(s.PID, p)
}

// PodsKept reports whether the supervisor of the daemon's pods runs, with or without the daemon.
func PodsKept(p Paths) bool { return process.Supervised(p.Runtime) }

// All returns the daemons of this user whose data exists, running or not, sorted by name.
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
			if Exists(p) {
				out = append(out, p)
			}
		}
	}
	return out, nil
}
