// Package daemon composes the parts: it reads the config, opens the store, connects API server, controllers, scheduler and
// kubelets through clients of the API, and starts and stops them in order. It is the only package that imports every part.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/autostart"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/filelock"
	"github.com/minikctl/minikctl/pkg/images"
	"github.com/minikctl/minikctl/pkg/kubelet"
	"github.com/minikctl/minikctl/pkg/logs"
	"github.com/minikctl/minikctl/pkg/scheduler"
	"github.com/minikctl/minikctl/pkg/supervisor/trim"
)

// Daemon holds the parts that run in one process.
type Daemon struct {
	cfg     *Config
	paths   Paths
	clock   clock.Clock // the cluster's
	machine clock.Clock
	source  *clock.Source
	plugins scheduler.Registry

	api      api                      // how the parts reach the API
	nodes    map[string]kubelet.Nodes // the open runtimes by the name of their driver
	images   *images.Store            // of the kubelets; nil without
	services []service
	startup  startup
	address  string // URL of the API server; "" when another process runs it
	closers  []func() error

	ready bool  // started has returned without an error
	state State // set by started

	memoryLimit uint64               // bytes; 0: none
	metrics     *prometheus.Registry // of /metrics of the API server
	releases    []func()             // free memory that only a busy cluster needs

	mu sync.Mutex // guards cfg.leaving and the settings file once services run

	controllers, scheduler health // for ComponentStatuses
}

// newRegistry returns a registry with the metrics of the process.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Run runs a daemon, whose scheduler has these plugins, until ctx ends, and calls ready once every part has started. The pods' processes
// continue after it.
func Run(ctx context.Context, cfg *Config, plugins scheduler.Registry, ready func(State)) (err error) {
	defer func() {
		if err != nil {
			reportStart(err)
		}
	}()
	if err := logs.SetUp(os.Stderr, clock.Real(), cfg.LogLevel); err != nil {
		return err
	}
	d := &Daemon{
		cfg: cfg, plugins: plugins, paths: PathsIn(cfg.Name, cfg.DataDir), clock: clock.Real(), machine: clock.Real(), source: newSource(cfg.Seed),
		nodes: map[string]kubelet.Nodes{}, metrics: newRegistry(), startup: startup{changed: make(chan struct{}, 1)},
	}
	if d.memoryLimit, err = limitMemory(cfg.MemoryLimit); err != nil {
		return err
	}
	held, err := lock(ctx, d.paths)
	if err != nil {
		return err
	}
	defer held.Close()
	first := !exists(d.paths.Store) && !exists(settingsPath(d.paths))
	defer func() {
		if err != nil && first && !d.ready {
			err = errors.Join(err, d.discard())
		}
	}()
	if err := linkHome(d.paths); err != nil {
		return err
	}
	defer func() {
		if errors.Is(err, errRemoved) {
			err = errors.Join(err, d.forget())
		}
	}()
	defer func() { err = errors.Join(err, d.close()) }()
	d.services = append(d.services, service{name: "data directory", run: func(ctx context.Context) error { return d.watchDir(ctx, held) }})
	if err := d.build(ctx); err != nil {
		return err
	}
	d.services = append(d.services, service{name: "state", run: func(ctx context.Context) error { // the last to start, and so the first to end
		<-ctx.Done()
		if d.state.PID == 0 || !filelock.InPlace(held) {
			return nil // there is no state of this daemon
		}
		d.state.Stopping = true
		return writeState(d.paths, d.state)
	}})
	return supervise(ctx, d.services, func() error { return d.started(ready) })
}

// discard removes what the first start of a cluster has created before it failed.
func (d *Daemon) discard() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout) //nolint:forbidigo // the start's context may have ended
	defer cancel()
	if err := endPods(ctx, d.paths, 0, true); err != nil {
		return err
	}
	return purge(d.paths, nil)
}

// forget removes what the cluster has outside of its data directory, which was removed. It removes nothing if another cluster uses the directory by
// now, since these files are then that cluster's.
func (d *Daemon) forget() error {
	if Exists(d.paths) {
		return nil
	}
	var own *clientcmdapi.Config
	if d.api != nil && d.cfg.Runs("apiserver") {
		own, _ = d.api.kubeconfig(d.paths.Name, d.address) // without it, the next cluster of this name replaces the entries
	}
	return errors.Join(removeContext(own), d.paths.forget())
}

func newSource(seed uint64) *clock.Source {
	if seed == 0 {
		return clock.RandomSource()
	}
	return clock.NewSource(seed)
}

// build creates the parts in the order in which they start. A start that fails because of config, files or ports fails here.
func (d *Daemon) build(ctx context.Context) error {
	if d.cfg.Runs("apiserver") {
		if err := d.openClock(); err != nil {
			return err
		}
		if err := d.addAPIServer(ctx); err != nil {
			return err
		}
	} else if err := d.connect(ctx); err != nil {
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
	if d.cfg.Runs("apiserver") {
		d.services = append(d.services, d.startup.service(d.machine))
	}
	d.services = append(d.services,
		service{name: "memory", run: func(ctx context.Context) error { return d.releaseMemory(ctx) }},
		service{name: "garbage", run: func(ctx context.Context) error { return boundGarbage(ctx, d.boundFiles()) }})
	return nil
}

// started runs when every service is ready. It writes the kubeconfigs, the settings and the state, and reports the start.
func (d *Daemon) started(ready func(State)) error {
	d.state = State{PID: os.Getpid(), Address: d.address, Started: d.machine.Now(), Processes: d.cfg.RunsProcesses(), Listen: d.cfg.Listen, LogLevel: d.cfg.LogLevel, WriteKubeconfig: d.cfg.WriteKubeconfig}
	for _, part := range Parts {
		if d.cfg.Runs(part) {
			d.state.Parts = append(d.state.Parts, part)
		}
	}
	if d.cfg.Runs("apiserver") {
		if err := d.writeKubeconfigs(); err != nil {
			return err
		}
	}
	d.mu.Lock()
	err := d.cfg.writeSettings(d.paths)
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if err := autostart.RemoveFailedUp(Home(), d.paths.Name); err != nil {
		slog.Warn("the record of the last failed up is not removed", "err", err)
	}
	if err := writeState(d.paths, d.state); err != nil {
		return err
	}
	d.ready = true
	slog.Info("ready", "address", d.address)
	reportStart(nil)
	ready(d.state)
	d.freeStartMemory()
	return nil
}

// afterStart is the time after which the first requests of a start are over.
const afterStart = 2 * time.Second

// freeStartMemory returns the memory that only the start needs to the system. It waits for afterStart, so that it does not
// delay the first requests.
func (d *Daemon) freeStartMemory() {
	timer := d.machine.AfterFunc(afterStart, func() {
		debug.FreeOSMemory()
		trim.Now()
	})
	d.closers = append(d.closers, func() error {
		timer.Stop()
		return nil
	})
}

// writeKubeconfigs writes the admin's kubeconfig into the data directory and to the file of writeKubeconfig. Without that setting
// it merges the kubeconfig into the user's.
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
		return nil //nolint:nilerr // without a home directory there is no kubeconfig to merge into
	}
	if err := mergeKubeconfig(path, c); err != nil {
		slog.Warn("context not added to the kubeconfig", "file", path, "err", err)
		d.state.KubeconfigError = err.Error()
	}
	return nil
}

// mergeKubeconfig adds c to the user's kubeconfig and records the file and the directories that it creates.
func mergeKubeconfig(path string, c *clientcmdapi.Config) error {
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if exists(path) {
		return pki.MergeKubeconfig(path, c, false)
	}
	return recordMade(func() ([]string, error) { return []string{path}, pki.MergeKubeconfig(path, c, false) })
}

// userKubeconfig returns the path of the first kubeconfig that kubectl reads.
func userKubeconfig() (string, error) {
	if files := filepath.SplitList(os.Getenv("KUBECONFIG")); len(files) > 0 && files[0] != "" {
		return filepath.Abs(files[0])
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
