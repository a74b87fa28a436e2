package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/minikctl/minikctl/pkg/apiserver/pki"
	"github.com/minikctl/minikctl/pkg/clock"
	"github.com/minikctl/minikctl/pkg/kubelet/process"
	"github.com/minikctl/minikctl/pkg/network/addr"
)

// DownOptions say how much of a daemon ends.
type DownOptions struct {
	KeepPods bool // only the daemon
	Purge    bool // also everything that was kept
}

// Down ends a daemon and, unless they are to be kept, the processes of its pods, also those that a killed daemon left.
// ran reports whether there was anything to end.
func Down(ctx context.Context, p Paths, opts DownOptions) (ran bool, err error) {
	if err := CheckName(p.Name); err != nil {
		return false, err
	}
	if opts.KeepPods && opts.Purge {
		return false, errors.New("--keep-pods and --purge exclude each other")
	}
	if _, err := os.Stat(p.Data); errors.Is(err, os.ErrNotExist) {
		return false, nil
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

// endPods ends the containers, and the supervisor with them.
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

// purge removes what a daemon that has ended leaves on disk.
func purge(p Paths) error {
	var errs []error
	if c, err := clientcmd.LoadFromFile(p.Kubeconfig); err == nil {
		if path, err := userKubeconfig(); err == nil {
			errs = append(errs, pki.RemoveKubeconfig(path, c), removeIfEmpty(path))
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
	_ = os.Remove(Home()) // stays where other daemons or a config are
	return errors.Join(errs...)
}

// remove removes the daemon's own things from its data folder, and then the folder, unless the user keeps other things in
// it.
func (p Paths) remove() error {
	var errs []error
	cut, _ := filepath.Glob(filepath.Join(p.Data, ".kubeconfig.*")) // writes that a killed daemon did not finish
	for _, own := range append(cut,
		p.Kubeconfig, p.State, p.State+".new", p.Log, p.Store, p.PKI, p.Runtime, p.Kubelet, p.Traces, p.DiscoveryCache, filepath.Join(p.Data, "run"), lockPath(p), settingsPath(p),
	) {
		errs = append(errs, os.RemoveAll(own))
	}
	if err := os.Remove(p.Data); !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, os.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// removeIfEmpty removes a kubeconfig in which nothing is left.
func removeIfEmpty(path string) error {
	c, err := clientcmd.LoadFromFile(path)
	if err != nil || len(c.Clusters)+len(c.AuthInfos)+len(c.Contexts)+len(c.Extensions)+len(c.Preferences.Extensions) > 0 {
		return nil //nolint:nilerr // what cannot be read is the user's
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(path)) // stays where there is more in it
	return nil
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
