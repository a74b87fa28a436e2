package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	kubectl "k8s.io/kubectl/pkg/cmd/logs"
)

// newLogs returns kubectl's logs with the flag --daemon, which prints the log of a daemon in the background.
func newLogs(env *Env) *cobra.Command {
	cmd := kubectl.NewCmdLogs(env.Factory, env.Streams())
	ofPod := cmd.Run
	own := cmd.Flags().Bool("daemon", false, "Print the log of the cluster's daemon instead of a container's log")
	cmd.Run = nil
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*own {
			ofPod(cmd, args)
			return nil
		}
		if len(args) > 0 {
			return errors.New("--daemon prints the daemon's log and takes no pod")
		}
		if !env.Target.local() {
			return errors.New("--daemon prints the log of a local daemon: see --name")
		}
		return printDaemonLog(env)
	}
	return cmd
}

func printDaemonLog(env *Env) error {
	f, err := os.Open(env.Target.Paths().Log)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cluster %q has no log: a daemon in the foreground writes to its terminal", env.Target.name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(env.Out, f)
	return err
}
