// Package daemon puts the parts together: it reads the config, opens the store, wires API server, controllers, scheduler
// and kubelets to each other through clients of the API, and starts and stops them in order. It is the only package that
// knows every part.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"k8s.io/klog/v2"

	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/kubelet/sim"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/supervisor/trim"
)

// Daemon is the parts of one process.
type Daemon struct {
	cfg    *Config
	paths  Paths
	clock  clock.Clock
	source *clock.Source

	api       api           // how the parts reach the API
	processes *process.Host // runs the pods of all nodes that run processes; nil: there are none
	simulated *sim.Cluster  // the same of all simulated nodes
	services  []service
	address   string // of the API as a URL, when this process serves it
	closers   []func() error

	controllers, scheduler health // what the API server tells of them
}

// Run runs a daemon until ctx ends, and calls ready once everything has started. The pods' processes run on after it.
func Run(ctx context.Context, cfg *Config, ready func(State)) (err error) {
	defer func() {
		if err != nil {
			sayReady(err)
		}
	}()
	if err := setUpLog(cfg.LogLevel); err != nil {
		return err
	}
	d := &Daemon{cfg: cfg, paths: PathsIn(cfg.Name, cfg.DataDir), clock: clock.Real(), source: newSource(cfg.Seed)}
	held, err := lock(d.paths)
	if err != nil {
		return err
	}
	defer held.Close()
	if err := linkHome(d.paths); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.build(ctx); err != nil {
		return err
	}
	return supervise(ctx, d.services, func() error { return d.started(ready) })
}

func newSource(seed uint64) *clock.Source {
	if seed == 0 {
		return clock.RandomSource()
	}
	return clock.NewSource(seed)
}

// build makes the parts in the order in which they start. What can fail at a start fails here.
func (d *Daemon) build(ctx context.Context) error {
	if d.cfg.Runs("apiserver") {
		if err := d.addAPIServer(); err != nil {
			return err
		}
	} else if err := d.connect(); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		add  func(context.Context) error
	}{
		{"controllers", d.addControllers}, {"scheduler", d.addScheduler}, {"kubelet", d.addKubelets},
	} {
		if d.cfg.Runs(part.name) {
			if err := part.add(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// started is called when every service is up: it makes the cluster known.
func (d *Daemon) started(ready func(State)) error {
	s := State{PID: os.Getpid(), Address: d.address, Started: d.clock.Now()}
	for _, part := range Parts {
		if d.cfg.Runs(part) {
			s.Parts = append(s.Parts, part)
		}
	}
	if d.cfg.Runs("apiserver") {
		if err := d.writeKubeconfigs(); err != nil {
			return err
		}
	}
	if err := d.cfg.remember(d.paths); err != nil {
		return err
	}
	if err := writeState(d.paths, s); err != nil {
		return err
	}
	debug.FreeOSMemory() // what only the start has needed
	trim.Now()
	slog.Info("ready", "address", d.address)
	sayReady(nil)
	ready(s)
	return nil
}

// writeKubeconfigs writes the admin's kubeconfig into the data folder, and either to the file that was asked for or into
// the user's own kubeconfig.
func (d *Daemon) writeKubeconfigs() error {
	c, err := d.api.kubeconfig(d.paths.Name, d.address)
	if err != nil {
		return err
	}
	if err := pki.WriteKubeconfig(d.paths.Kubeconfig, c); err != nil {
		return err
	}
	if d.cfg.WriteKubeconfig != "" {
		return pki.WriteKubeconfig(d.cfg.WriteKubeconfig, c)
	}
	path, err := userKubeconfig()
	if err != nil {
		return nil //nolint:nilerr // no home folder: there is nobody whose file it could be
	}
	if err := pki.MergeKubeconfig(path, c, false); err != nil {
		slog.Warn("context not added to the kubeconfig", "file", path, "err", err)
	}
	return nil
}

// userKubeconfig is the file that stock kubectl reads first.
func userKubeconfig() (string, error) {
	if files := filepath.SplitList(os.Getenv("KUBECONFIG")); len(files) > 0 && files[0] != "" {
		return files[0], nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".kube", "config"), nil
}

func (d *Daemon) close() error {
	var errs []error
	for _, c := range slices.Backward(d.closers) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// setUpLog sends the program's log to standard error.
func setUpLog(level string) error {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return fmt.Errorf("log level: %w", err)
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})))
	klog.SetSlogLogger(slog.Default()) // what client-go and others of Kubernetes' libraries log
	return nil
}

// addresses claims the daemon's range of pod addresses.
func (d *Daemon) addresses() (addr.Range, error) {
	r, err := addr.Claim(addr.Folder(), d.paths.Data)
	if err != nil {
		return 0, fmt.Errorf("claim pod addresses: %w", err)
	}
	return r, nil
}
