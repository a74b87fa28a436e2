package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/autostart"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/network/addr"
	"github.com/minikctl/minikctl/pkg/supervisor/remove"
)

// DownOptions select what Down ends and removes.
type DownOptions struct {
	KeepPods bool // end only the daemon
	Purge    bool // also remove the data

	// Warn gets an error of a purge that removed everything. May be nil.
	Warn func(error)
}

// Down ends a daemon and, without KeepPods, the processes of its pods, including those of a daemon that was killed. ran reports
// whether a daemon or its pods ran.
func Down(ctx context.Context, p Paths, opts DownOptions) (ran bool, err error) {
	if err := CheckName(p.Name); err != nil {
		return false, err
	}
	if opts.KeepPods && opts.Purge {
		return false, errors.New("--keep-pods and --purge exclude each other")
	}
	if !Exists(p) {
		if !opts.Purge {
			return false, nil
		}
		return false, p.forget()
	}
	ran = Alive(p) || !opts.KeepPods && PodsKept(p)
	graceful := !opts.KeepPods && !opts.Purge
	if graceful && Alive(p) {
		if err := os.WriteFile(p.Shutdown, nil, 0o600); err != nil {
			return ran, err
		}
		defer os.Remove(p.Shutdown)
	}
	held, err := lockForDown(ctx, p, opts.Purge)
	if errors.Is(err, fs.ErrNotExist) {
		return ran, nil // another down has removed the cluster
	}
	if err != nil {
		return ran, err
	}
	defer held.Close()
	if !opts.KeepPods {
		grace := time.Duration(0)
		if graceful {
			grace = downGrace
		}
		if err := endPods(ctx, p, grace, opts.Purge); err != nil {
			return ran, err
		}
	}
	if !opts.Purge {
		return ran, nil
	}
	return ran, purge(p, opts.Warn)
}

// downGrace is how long the containers that the kubelets have not ended may take to end, as on a machine that shuts down.
const downGrace = 5 * time.Second

// ShutdownPeriod returns how long the nodes of a daemon may take to shut down, by the settings of its last start.
func ShutdownPeriod(p Paths) time.Duration {
	last, err := readSettings(p)
	if err != nil || last == nil {
		return 0
	}
	return last.Kubelet.shutdownPeriod()
}

// endPods ends the containers, after a grace period, and the supervisor. Without purge the records and logs of the containers stay, so that
// the next daemon's kubelets know how they ended.
func endPods(ctx context.Context, p Paths, grace time.Duration, purge bool) error {
	if _, err := os.Stat(p.Runtime); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	host, err := process.Open(ctx, process.Config{Root: p.Runtime, Clock: clock.Real()})
	if err != nil {
		return err
	}
	end := host.PurgeAfter
	if !purge {
		end = func(ctx context.Context, grace time.Duration) error {
			return errors.Join(host.StopAll(ctx, grace), host.Close())
		}
	}
	if err := end(ctx, grace); err != nil {
		return fmt.Errorf("end the pods: %w", err)
	}
	return nil
}

// purge removes the files of a daemon that has ended, its address range and its entries in the user's kubeconfig. The lock must be held.
func purge(p Paths, warn func(error)) error {
	own, err := clientcmd.LoadFromFile(p.Kubeconfig)
	if err != nil {
		own = nil // a daemon without an API server has none
	}
	left := removeContext(own)
	if errors.Is(left, pki.ErrNoEntries) {
		if warn != nil {
			warn(left)
		}
		left = nil
	}
	err = errors.Join(p.forget(), p.remove())
	if left == nil {
		return err
	}
	// The exit status says whether the cluster is gone as a whole: the user has to remove the context from this file.
	return errors.Join(err, fmt.Errorf("the context %q may be left: %w", own.CurrentContext, left))
}

// removeContext removes the entries of own, the kubeconfig of a cluster, from the user's kubeconfig. Nil has none.
func removeContext(own *clientcmdapi.Config) error {
	path, err := userKubeconfig()
	if own == nil || err != nil {
		return nil // without a home directory no context was added
	}
	return pki.RemoveKubeconfig(path, own)
}

// forget removes what a daemon that has ended has outside of its data directory, except the context in the user's kubeconfig.
func (p Paths) forget() error {
	var errs []error
	errs = append(errs, addr.Release(addr.Dir(), p.Data))
	if dir := filepath.Dir(p.Socket); filepath.Dir(dir) != p.Data {
		errs = append(errs, os.RemoveAll(dir))
	}
	if p.Memory != "" {
		errs = append(errs, remove.All(p.Memory))
	}
	link := filepath.Join(Home(), p.Name)
	if to, err := os.Readlink(link); err == nil && (to == p.Data || PathsOf(p.Name).Data == p.Data) {
		errs = append(errs, os.Remove(link))
	}
	errs = append(errs, autostart.RemoveFailedUp(Home(), p.Name))
	if !exists(p.Data) { // else remove follows
		errs = append(errs, removeMade())
	}
	return errors.Join(errs...)
}

// createdFiles returns the files and directories in the data directory that a daemon creates, the lock last.
func (p Paths) createdFiles() []string {
	cut, _ := filepath.Glob(filepath.Join(p.Data, ".kubeconfig.*")) // writes that a killed daemon did not finish
	for _, kept := range []string{p.Store + ".new", p.Store + ".replaced*"} {
		all, _ := filepath.Glob(kept)
		cut = append(cut, all...)
	}
	return append(cut, p.Backups, p.Volumes, p.Clock, p.Kubeconfig, p.State, p.State+".new", p.Log, p.Store, p.PKI, p.Runtime, p.Kubelet, p.Traces, p.DiscoveryCache,
		p.Shutdown, filepath.Join(p.Data, "run"), settingsPath(p), settingsPath(p)+".new", filepath.Join(p.Data, autostart.FailedUpFile), lockPath(p))
}

// remove removes the files that a daemon has created in its data directory, the lock last, and then empty directories (see removeMade).
func (p Paths) remove() error {
	var errs []error
	for _, path := range p.createdFiles() {
		errs = append(errs, remove.All(path))
	}
	return errors.Join(append(errs, removeMade())...)
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
