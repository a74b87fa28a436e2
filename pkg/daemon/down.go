package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/autostart"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/network/addr"
)

// DownOptions select what Down ends and removes.
type DownOptions struct {
	KeepPods bool // end only the daemon
	Purge    bool // also remove the data
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
		return false, errors.Join(autostart.RemoveFailedUp(Home(), p.Name), removeMade())
	}
	ran = Alive(p) || !opts.KeepPods && PodsKept(p)
	if err := Stop(ctx, p); err != nil {
		return ran, err
	}
	if !opts.KeepPods {
		if err := endPods(ctx, p); err != nil {
			return ran, err
		}
	}
	if !opts.Purge {
		return ran, nil
	}
	return ran, purge(p)
}

// endPods ends the containers and the supervisor.
func endPods(ctx context.Context, p Paths) error {
	if _, err := os.Stat(p.Runtime); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	host, err := process.Open(ctx, process.Config{Root: p.Runtime, Clock: clock.Real()})
	if err != nil {
		return err
	}
	if err := host.Purge(ctx); err != nil {
		return fmt.Errorf("end the pods: %w", err)
	}
	return nil
}

// purge removes the files of a daemon that has ended, its address range and its entries in the user's kubeconfig.
func purge(p Paths) error {
	var errs []error
	if c, err := clientcmd.LoadFromFile(p.Kubeconfig); err == nil {
		if path, err := userKubeconfig(); err == nil {
			errs = append(errs, pki.RemoveKubeconfig(path, c))
		}
	}
	errs = append(errs, addr.Release(addr.Folder(), p.Data))
	if dir := filepath.Dir(p.Socket); filepath.Dir(dir) != p.Data {
		errs = append(errs, os.RemoveAll(dir))
	}
	errs = append(errs, p.remove())
	if link := filepath.Join(Home(), p.Name); isLink(link) {
		errs = append(errs, os.Remove(link))
	}
	return errors.Join(append(errs, autostart.RemoveFailedUp(Home(), p.Name), removeMade())...)
}

// createdFiles returns the files and folders in the data folder that a daemon creates.
func (p Paths) createdFiles() []string {
	cut, _ := filepath.Glob(filepath.Join(p.Data, ".kubeconfig.*")) // writes that a killed daemon did not finish
	for _, kept := range []string{p.Store + ".new", p.Store + ".replaced*"} {
		all, _ := filepath.Glob(kept)
		cut = append(cut, all...)
	}
	return append(cut, p.Backups, p.Kubeconfig, p.State, p.State+".new", p.Log, p.Store, p.PKI, p.Runtime, p.Kubelet, p.Traces, p.DiscoveryCache,
		filepath.Join(p.Data, "run"), settingsPath(p), settingsPath(p)+".new", filepath.Join(p.Data, autostart.FailedUpFile), lockPath(p))
}

// remove removes the files that a daemon has created in its data folder, and then empty folders (see removeMade).
func (p Paths) remove() error {
	var errs []error
	files := p.createdFiles()
	if p.Memory != "" {
		files = append(files, p.Memory)
	}
	for _, path := range files {
		errs = append(errs, os.RemoveAll(path))
	}
	return errors.Join(append(errs, removeMade())...)
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
