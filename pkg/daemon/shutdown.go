package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/minikctl/minikctl/pkg/kubelet"
)

// addShutdown adds a service that shuts the nodes down when it ends, if the daemon ends because of down. It ends before the services that
// are added before it. Down marks its intent by a file: when the daemon ends for another reason, its pods run on.
func (d *Daemon) addShutdown(host *kubelet.Host) {
	periods := d.cfg.Kubelet.shutdownPeriods()
	if len(periods) == 0 {
		return
	}
	d.services = append(d.services, service{name: "node shutdown", ends: d.cfg.Kubelet.shutdownPeriod() + stopTimeout, run: func(ctx context.Context) error {
		// A daemon that was killed during its shutdown has left the file.
		if err := os.Remove(d.paths.Shutdown); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		<-ctx.Done()
		if exists(d.paths.Shutdown) {
			host.Shutdown(context.WithoutCancel(ctx), periods)
		}
		return nil
	}})
}
