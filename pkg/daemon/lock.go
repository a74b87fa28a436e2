package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/minikctl/minikctl/pkg/autostart"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/dirwatch"
	"github.com/minikctl/minikctl/pkg/filelock"
)

// A data directory has one owner at a time, which holds the lock of a file in it: a daemon, from its start to its end, or a down,
// while it ends the pods and removes the files. The lock lasts until the file is closed or the process ends.

func lockPath(p Paths) string { return filepath.Join(p.Data, autostart.LockFile) }

// Exists reports whether a daemon has ever used the data directory of p.
func Exists(p Paths) bool { return exists(lockPath(p)) }

// ErrLocked means that another daemon uses the data directory.
var ErrLocked = errors.New("data directory is in use by another daemon")

// lockTimeout bounds how long a daemon waits for the end of another daemon and of a down. It is longer than these take.
const lockTimeout = 90 * time.Second

// lockInterval is how often a process that waits for the lock tries again.
const lockInterval = 5 * time.Millisecond

// lock locks the data directory for a daemon, and creates it if it is missing. While a down, or a daemon that starts or stops, has the
// lock, it waits. If a daemon runs, the error is ErrLocked.
func lock(ctx context.Context, p Paths) (*os.File, error) {
	const attempts = 1000
	for i := 0; ; i++ {
		if err := awaitDir(ctx, p); err != nil {
			return nil, err
		}
		if err := checkUnused(p); err != nil {
			return nil, err
		}
		if err := p.makeData(); err != nil {
			return nil, err
		}
		f, err := filelock.Try(lockPath(p), os.O_CREATE|os.O_RDWR)
		if (errors.Is(err, fs.ErrNotExist) || errors.Is(err, filelock.ErrHeld)) && i < attempts {
			if err := clock.Sleep(ctx, clock.Real(), lockInterval); err != nil { // removed or locked since, or another process looks at the lock
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := disownState(p); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
}

// lockForDown ends the daemon of a data directory that exists, if one runs, and locks the directory. If another down has removed the
// directory, the error is fs.ErrNotExist. For atOnce see stop.
func lockForDown(ctx context.Context, p Paths, atOnce bool) (*os.File, error) {
	for {
		if err := stop(ctx, p, atOnce); err != nil {
			return nil, err
		}
		f, err := filelock.Try(lockPath(p), os.O_RDWR)
		if err == nil {
			_ = disownState(p) // fails on a full disk, on which a down works, too
		}
		if !errors.Is(err, filelock.ErrHeld) {
			return f, err
		}
		if err := clock.Sleep(ctx, clock.Real(), lockInterval); err != nil {
			return nil, fmt.Errorf("%s is locked by another process: %w", lockPath(p), err)
		}
	}
}

// awaitDir waits while a down, or a daemon that starts or stops, has the lock of the data directory. If a daemon runs, or if the lock is
// not released in time, the error is ErrLocked.
func awaitDir(ctx context.Context, p Paths) error {
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	for filelock.Held(lockPath(p)) {
		if s, err := ReadState(p); err == nil && !s.Stopping && isDaemon(s.PID, p) {
			return runsError{p, s}
		}
		if err := clock.Sleep(ctx, clock.Real(), lockInterval); errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%s: %w", p.Data, ErrLocked)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// runsError is the error of a start while a daemon of the cluster runs. It is ErrLocked.
type runsError struct {
	paths Paths
	state State
}

func (e runsError) Error() string {
	cluster, end := fmt.Sprintf("cluster %q", e.paths.Name), "--name "+e.paths.Name
	if PathsOf(e.paths.Name).Data != e.paths.Data { // it has another name
		cluster, end = "a cluster in "+e.paths.Data, "--data-dir "+e.paths.Data
	}
	running := cluster + " at " + e.state.Address + " runs"
	if e.state.Address == "" {
		running = fmt.Sprintf("%s of %q run", strings.Join(e.state.Parts, ", "), e.paths.Name)
	}
	return fmt.Sprintf("%s already (process %d); to end it: minikctl down %s", running, e.state.PID, end)
}

func (runsError) Is(target error) bool { return target == ErrLocked }

// isDaemon reports whether process pid exists and the data directory of p is locked. The lock excludes a process that got the pid
// of a daemon that has ended.
func isDaemon(pid int, p Paths) bool {
	return pid > 0 && syscall.Kill(pid, 0) == nil && filelock.Held(lockPath(p))
}

// checkUnused refuses a directory that no daemon has used and that has files with the names of a daemon's files: down --purge
// would remove them. The log and the cache are not among them: Spawn creates the log, and a command that runs while its cluster is
// removed may write the cache.
func checkUnused(p Paths) error {
	for _, path := range p.createdFiles() {
		if path != p.Log && path != p.DiscoveryCache && exists(path) && !Exists(p) {
			return fmt.Errorf("data directory %s: %s is in it already and was not created by minikctl", p.Data, filepath.Base(path))
		}
	}
	return nil
}

// errRemoved ends a daemon whose data directory was removed. No command can find that daemon any more, and another one may start in a
// new directory of the same name.
var errRemoved = errors.New("was removed while the daemon ran")

// dirInterval is how often a daemon checks that its data directory exists, if the system sends no notifications.
const dirInterval = 5 * time.Second

// watchDir returns errRemoved when the lock file is no longer in the data directory.
func (d *Daemon) watchDir(ctx context.Context, held *os.File) error {
	changes, stop := dirwatch.Watch(d.paths.Data)
	defer stop()
	for {
		if !filelock.InPlace(held) {
			return fmt.Errorf("%s %w", d.paths.Data, errRemoved)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changes:
		case <-d.machine.After(dirInterval):
		}
	}
}
