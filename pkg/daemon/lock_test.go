package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/minikctl/minikctl/pkg/filelock"
)

func TestLock(t *testing.T) {
	home(t)
	p := PathsOf("dev")
	me := os.Getpid()
	if isDaemon(me, p) || Alive(p) {
		t.Error("there is no daemon yet")
	}
	held, err := lock(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeState(p, State{PID: me}); err != nil {
		t.Fatal(err)
	}
	if _, err := lock(t.Context(), p); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	if !isDaemon(me, p) || !Alive(p) {
		t.Error("the process that holds the lock is not the daemon")
	}
	if isDaemon(0, p) || isDaemon(-1, p) || isDaemon(1<<30, p) {
		t.Error("a process that does not exist is the daemon")
	}
	held.Close()
	if isDaemon(me, p) || Alive(p) {
		t.Error("a process without the lock is the daemon")
	}
	again, err := lock(t.Context(), p)
	if err != nil {
		t.Fatalf("after the daemon's end: %v", err)
	}
	again.Close()
}

// TestLockOfRunningDaemon checks what a start reports while a daemon runs.
func TestLockOfRunningDaemon(t *testing.T) {
	home(t)
	elsewhere := filepath.Join(real(t.TempDir()), "data")
	me := os.Getpid()
	for _, c := range []struct {
		name  string
		paths Paths
		state State
		want  string
	}{
		{"a cluster", PathsOf("dev"), State{Address: "https://127.0.0.1:6443", Parts: Parts},
			`cluster "dev" at https://127.0.0.1:6443 runs already (process %d); to end it: minikctl down --name dev`},
		{"parts", PathsOf("dev-scheduler"), State{Parts: []string{"controllers", "scheduler"}},
			`controllers, scheduler of "dev-scheduler" run already (process %d); to end it: minikctl down --name dev-scheduler`},
		{"a data directory of another name", PathsIn("two", elsewhere), State{Address: "https://127.0.0.1:6443", Parts: Parts},
			`a cluster in ` + elsewhere + ` at https://127.0.0.1:6443 runs already (process %d); to end it: minikctl down --data-dir ` + elsewhere},
	} {
		t.Run(c.name, func(t *testing.T) {
			held, err := lock(t.Context(), c.paths)
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			c.state.PID = me
			if err := writeState(c.paths, c.state); err != nil {
				t.Fatal(err)
			}
			if _, err := lock(t.Context(), c.paths); err == nil || err.Error() != fmt.Sprintf(c.want, me) {
				t.Errorf("got  %v\nwant "+c.want, err, me)
			}
		})
	}
}

// TestLockWaits locks the directory of a cluster while a down removes it, and while its daemon starts or stops.
func TestLockWaits(t *testing.T) {
	for _, c := range []struct {
		name  string
		state *State
	}{{"while it starts or is removed", nil}, {"while it stops", &State{PID: os.Getpid(), Stopping: true}}} {
		t.Run(c.name, func(t *testing.T) {
			home(t)
			p := PathsOf("dev")
			held, err := lock(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if c.state != nil {
				if err := writeState(p, *c.state); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*lockInterval)
			defer cancel()
			if f, err := lock(ctx, p); err == nil {
				f.Close()
				t.Fatal("locked twice")
			}
			locked := make(chan error)
			go func() {
				again, err := lock(t.Context(), p)
				if err == nil {
					defer again.Close()
					if !filelock.InPlace(again) {
						err = errors.New("the lock is one of a directory that was removed")
					}
				}
				locked <- err
			}()
			if err := p.remove(); err != nil {
				t.Fatal(err)
			}
			held.Close()
			if err := <-locked; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLockForDown locks the directory of a cluster that another down is removing.
func TestLockForDown(t *testing.T) {
	home(t)
	p := PathsOf("dev")
	held, err := lock(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	locked := make(chan error)
	go func() {
		f, err := lockForDown(t.Context(), p, false)
		if err == nil {
			f.Close()
		}
		locked <- err
	}()
	if err := p.remove(); err != nil {
		t.Fatal(err)
	}
	held.Close()
	if err := <-locked; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that there is no directory", err)
	}
}

// TestLockOfRemovedLink locks the directory of a cluster whose data was elsewhere and is gone.
func TestLockOfRemovedLink(t *testing.T) {
	dir := home(t)
	gone := filepath.Join(t.TempDir(), "gone")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Symlink(gone, filepath.Join(dir, "dev"))); err != nil {
		t.Fatal(err)
	}
	held, err := lock(t.Context(), PathsOf("dev"))
	if err != nil {
		t.Fatal(err)
	}
	held.Close()
	if exists(gone) {
		t.Error("the directory elsewhere is there again")
	}
}

// TestLockDisownsState checks that a process that has got the number of an ended daemon is not taken for the daemon while another daemon or a
// down has the lock.
func TestLockDisownsState(t *testing.T) {
	for name, lock := range map[string]func(Paths) (*os.File, error){
		"a daemon": func(p Paths) (*os.File, error) { return lock(t.Context(), p) },
		"a down":   func(p Paths) (*os.File, error) { return lockForDown(t.Context(), p, false) },
	} {
		t.Run(name, func(t *testing.T) {
			home(t)
			p := PathsOf("dev")
			write(t, lockPath(p))
			last := State{PID: os.Getpid(), Address: "https://127.0.0.1:1", Parts: Parts}
			if err := writeState(p, last); err != nil {
				t.Fatal(err)
			}
			held, err := lock(p)
			if err != nil {
				t.Fatal(err)
			}
			defer held.Close()
			if Alive(p) {
				t.Error("this process is taken for the daemon")
			}
			last.PID = 0
			if got, err := ReadState(p); err != nil || !reflect.DeepEqual(got, last) {
				t.Errorf("got %+v, %v, want %+v", got, err, last)
			}
		})
	}
}
