package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/early"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
)

// State describes a running daemon. The daemon writes it to Paths.State.
type State struct {
	PID     int       `json:"pid"`     // 0 once it has ended and another process has had the lock
	Address string    `json:"address"` // URL of the API server; "" when the daemon runs none
	Parts   []string  `json:"parts"`
	Started time.Time `json:"started"`
	// Stopping is true once the daemon begins to end.
	Stopping bool `json:"stopping,omitempty"`

	// Processes reports whether containers are processes of the daemon's user.
	Processes bool `json:"processes,omitempty"`

	// KubeconfigError is why the user's kubeconfig has no context of the cluster; "" if it has one.
	KubeconfigError string `json:"kubeconfigError,omitempty"`

	Listen          string `json:"listen,omitempty"` // this and the next ones are settings of the start
	LogLevel        string `json:"logLevel,omitempty"`
	WriteKubeconfig string `json:"writeKubeconfig,omitempty"`
}

// ReadState returns the state that the last daemon wrote. That daemon may have ended since (see Alive). Without a state, or with one
// that is damaged, e.g. by a loss of power, the error is fs.ErrNotExist.
func ReadState(p Paths) (State, error) {
	b, err := os.ReadFile(p.State)
	if err != nil {
		return State{}, err
	}
	var s State
	if err := json.Unmarshal(b, &s); err != nil {
		return State{}, fmt.Errorf("read %s: %w (%w)", p.State, err, fs.ErrNotExist)
	}
	return s, nil
}

// disownState removes the process from the state, since that daemon has ended: another process may get its number, while another daemon or
// a down has the lock. The rest is for the next start.
func disownState(p Paths) error {
	s, err := ReadState(p)
	if errors.Is(err, fs.ErrNotExist) || err == nil && s.PID == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	s.PID = 0
	return writeState(p, s)
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

// RunsParts reports whether a daemon without an API server runs, and does not stop.
func RunsParts(p Paths) bool {
	s, err := ReadState(p)
	return err == nil && s.Address == "" && !s.Stopping && isDaemon(s.PID, p)
}

// Ready waits while a daemon starts or stops, and then reports whether one serves. Before Ready, a daemon that accepts connections may not
// have written its kubeconfig.
func Ready(ctx context.Context, p Paths) bool {
	for Running(p) {
		if s, err := ReadState(p); err == nil && s.PID > 0 && !s.Stopping {
			return true
		}
		if clock.Sleep(ctx, clock.Real(), lockInterval) != nil {
			return false
		}
	}
	return false
}

// Spawn starts a daemon in the background, with the arguments of up, and waits until it is ready.
func Spawn(ctx context.Context, p Paths, args []string) error {
	if err := awaitDir(ctx, p); err != nil {
		return err
	}
	log, err := openLog(p)
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
	if err != nil && !Exists(p) { // the daemon refused its config or the data directory before it locked that
		_ = os.Remove(p.Log) // an error is less important than err
		return errors.Join(err, removeMade())
	}
	return err
}

// openLog opens the log of a daemon in the background, and creates its directory.
func openLog(p Paths) (*os.File, error) {
	const attempts = 1000 // another process may remove the directory while it is empty
	for i := 0; ; i++ {
		if err := p.makeData(); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if !errors.Is(err, os.ErrNotExist) || i == attempts {
			return f, err
		}
	}
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

// stop ends the daemon with SIGTERM and waits for its end. It does nothing when no daemon runs. atOnce also cuts off a shutdown of the nodes
// that another down has begun.
func stop(ctx context.Context, p Paths, atOnce bool) error {
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
	signal := syscall.SIGTERM
	if s.Stopping && atOnce {
		signal = syscall.SIGINT // the second signal, if it is this one, ends a daemon at once
	}
	if err := syscall.Kill(s.PID, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
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
