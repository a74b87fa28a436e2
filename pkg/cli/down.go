package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/minikctl/minikctl/pkg/daemon"
)

// downTimeout bounds how long the daemon and its pods may take to end.
const downTimeout = 60 * time.Second

func newDown(env *Env) *cobra.Command {
	var opts daemon.DownOptions
	var dataDir string
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster",
		Long: `Stop a cluster's daemon and the processes of its pods. What the cluster knows is kept, and "minikctl up" brings it back;
with --purge everything is removed: data, addresses, and the context in ~/.kube/config.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), downTimeout)
			defer cancel()
			paths := env.Target.Paths()
			if dataDir != "" {
				paths = daemon.PathsIn(env.Target.name, dataDir)
			}
			ran, err := daemon.Down(ctx, paths, opts)
			if err != nil {
				return err
			}
			switch {
			case opts.Purge:
				fmt.Fprintf(env.Out, "minikctl: cluster %q is gone\n", paths.Name)
			case ran:
				fmt.Fprintf(env.Out, "minikctl: cluster %q is down\n", paths.Name)
			default:
				fmt.Fprintf(env.Out, "minikctl: cluster %q was not running\n", paths.Name)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&opts.Purge, "purge", false, "also remove everything the cluster has kept")
	cmd.Flags().BoolVar(&opts.KeepPods, "keep-pods", false, "stop the daemon only: its pods run on, and the next daemon finds them")
	cmd.Flags().StringVar(&dataDir, "data-dir", "", "where everything is kept (default ~/.minikctl/NAME)")
	return cmd
}
