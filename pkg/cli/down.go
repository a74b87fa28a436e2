package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/minikctl/minikctl/pkg/daemon"
)

// downTimeout is how long down waits for the end of the daemon and its pods, in addition to the time of a graceful shutdown.
const downTimeout = 60 * time.Second

func newDown(env *Env) *cobra.Command {
	var opts daemon.DownOptions
	var dataDir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster",
		Long: `Stop a cluster's daemon and the processes of its pods. The cluster's data stays, and "minikctl up" starts the cluster
again. Pods get SIGTERM and five seconds to end. With the setting kubelet.shutdownGracePeriod the nodes shut down as in Kubernetes: pods
end in the order of their priorities, with their preStop hooks and grace periods, and are Failed. --purge kills them at once, and removes
the data, the addresses, and the context in ~/.kube/config.`,
		Args: noName,
		RunE: func(cmd *cobra.Command, _ []string) error {
			paths := env.Target.Paths()
			if dataDir != "" {
				paths = daemon.PathsIn(env.Target.name, dataDir)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), downTimeout+daemon.ShutdownPeriod(paths))
			defer cancel()
			opts.Warn = func(err error) {
				fmt.Fprintln(env.Err, "Warning:", strings.Join(strings.Fields(err.Error()), " ")) // errors of YAML have several lines
			}
			existed := daemon.Exists(paths)
			ran, err := daemon.Down(ctx, paths, opts)
			if err != nil {
				return err
			}
			switch {
			case !existed:
				fmt.Fprintf(env.Out, "minikctl: there is no cluster %q\n", paths.Name)
			case opts.Purge:
				fmt.Fprintf(env.Out, "minikctl: cluster %q is gone\n", paths.Name)
			case ran:
				fmt.Fprintf(env.Out, "minikctl: cluster %q is down\n", paths.Name)
			default:
				fmt.Fprintf(env.Out, "minikctl: cluster %q was not running\n", paths.Name)
			}
			return printParts(env.Out, paths.Name, opts.Purge)
		},
	}
	cmd.Flags().BoolVar(&opts.Purge, "purge", false, "also remove the cluster's data")
	cmd.Flags().BoolVar(&opts.KeepPods, "keep-pods", false, "stop the daemon only; its pods continue, and the next daemon adopts them")
	cmd.Flags().StringVar(&dataDir, "data-dir", "", "directory that holds the cluster's data (default ~/.minikctl/NAME)")
	return cmd
}

// printParts names the parts of a cluster that were started as processes of their own and run on, with or without their pods.
func printParts(w io.Writer, cluster string, purge bool) error {
	all, err := daemon.All()
	if err != nil {
		return err
	}
	for _, p := range all {
		only, ok := strings.CutPrefix(p.Name, cluster+"-")
		if !ok || !isParts(only) || !daemon.Alive(p) && !daemon.PodsKept(p) {
			continue
		}
		end := "minikctl down --name " + p.Name
		if purge {
			end += " --purge"
		}
		fmt.Fprintf(w, "minikctl: %s runs on, or its pods do; end them with: %s\n", p.Name, end)
	}
	return nil
}

// isParts reports whether a name is that of parts (see partName).
func isParts(names string) bool {
	for _, name := range strings.Split(names, "-") {
		if !slices.Contains(daemon.Parts, name) {
			return false
		}
	}
	return true
}
